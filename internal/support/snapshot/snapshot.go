// Package snapshot holds what was read of a cluster at one time to look for problems in it: the manager, the three kinds, the
// installations and their workloads, the objects of the Operator Lifecycle Manager, CRDs and custom resources. It is pure; package
// reader fills it.
package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// LabelManager is the label of the manager's workload, pods and claims, with the value ManagerName. Its leader also has the label
// LabelLeader with the value LeaderValue.
const (
	LabelManager = "app.kubernetes.io/name"
	ManagerName  = "collection-operator"
	LabelLeader  = "component"
	LeaderValue  = "manager"
	// ManagerContainer is the container of the manager's pods that the manager runs in.
	ManagerContainer = "manager"
)

// CatalogName is the name of the CatalogSource of the manager's catalog.
const CatalogName = "collection-operator-catalog"

// Kinds that a snapshot may have, besides those of collections.
var (
	OperatorCollection = v2beta2.GroupVersion.WithKind("OperatorCollection").GroupKind()
	SubOperatorConfig  = v2beta2.GroupVersion.WithKind("SubOperatorConfig").GroupKind()
	ZosCloudBroker     = schema.GroupKind{Group: v2beta2.GroupVersion.Group, Kind: "ZosCloudBroker"}
	ZosEndpoint        = v2beta2.GroupVersion.WithKind("ZosEndpoint").GroupKind()

	Namespace   = corev1.SchemeGroupVersion.WithKind("Namespace").GroupKind()
	Pod         = corev1.SchemeGroupVersion.WithKind("Pod").GroupKind()
	Event       = corev1.SchemeGroupVersion.WithKind("Event").GroupKind()
	ConfigMap   = corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind()
	Claim       = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim").GroupKind()
	Deployment  = appsv1.SchemeGroupVersion.WithKind("Deployment").GroupKind()
	StatefulSet = appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind()
	ReplicaSet  = appsv1.SchemeGroupVersion.WithKind("ReplicaSet").GroupKind()
	ClusterRole = rbacv1.SchemeGroupVersion.WithKind("ClusterRole").GroupKind()

	CustomResourceDefinition = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition").GroupKind()

	Subscription          = operatorsv1alpha1.SchemeGroupVersion.WithKind("Subscription").GroupKind()
	InstallPlan           = operatorsv1alpha1.SchemeGroupVersion.WithKind("InstallPlan").GroupKind()
	ClusterServiceVersion = operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersion").GroupKind()
	CatalogSource         = operatorsv1alpha1.SchemeGroupVersion.WithKind("CatalogSource").GroupKind()
	OperatorGroup         = operatorsv1.GroupVersion.WithKind("OperatorGroup").GroupKind()
)

// Complete is a set of objects that was read completely, so that what is not there does not exist.
type Complete string

// The sets.
const (
	// ManagerSets and ManagerDeployments are workloads of the manager.
	ManagerSets        Complete = "manager's StatefulSets"
	ManagerDeployments Complete = "manager's Deployments"
	Operators          Complete = "operators"
	OperatorGroups     Complete = "OperatorGroups"
	// Secrets are those in Snapshot.Secrets.
	Secrets Complete = "Secrets"
)

// Secret is a Secret without its content: neither keys nor values, and no value of an annotation.
type Secret struct {
	Namespace   string            `json:"namespace"`
	Name        string            `json:"name"`
	Type        string            `json:"type"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations []string          `json:"annotations,omitempty"`
	// Keys is the number of keys.
	Keys              int64        `json:"keys"`
	CreationTimestamp metav1.Time  `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time `json:"deletionTimestamp,omitempty"`
}

// Snapshot is what was read of a cluster.
type Snapshot struct {
	// Taken is when it was read.
	Taken time.Time
	// ServerVersion of the API server.
	ServerVersion string
	// ServesAPI is true if the cluster serves the three kinds.
	ServesAPI bool
	// ManagerNamespace is where the manager was looked for if not in all namespaces.
	ManagerNamespace string
	Secrets          []Secret
	// Lists is the number of requests that were answered with objects or with none.
	Lists int
	// Failed is the number of requests that the API server did not answer as it should. What may not be read, or is not served, is none.
	Failed int
	// Unread has a sentence for all that could not be read, sorted.
	Unread []string

	objects  map[schema.GroupKind]map[string]*unstructured.Unstructured
	complete map[Complete][]string
}

// New returns a snapshot without objects.
func New(taken time.Time) *Snapshot {
	return &Snapshot{
		Taken: taken, objects: map[schema.GroupKind]map[string]*unstructured.Unstructured{}, complete: map[Complete][]string{},
	}
}

// Completed records that a set was read completely in a namespace, which is empty for all.
func (s *Snapshot) Completed(set Complete, namespace string) {
	s.complete[set] = append(s.complete[set], namespace)
}

// IsComplete reports whether a set was read completely in a namespace.
func (s *Snapshot) IsComplete(set Complete, namespace string) bool {
	return slices.Contains(s.complete[set], namespace) || slices.Contains(s.complete[set], metav1.NamespaceAll)
}

// Add adds an object without its managed fields. It replaces one of the same name.
func (s *Snapshot) Add(object *unstructured.Unstructured) {
	object.SetManagedFields(nil)
	kind := object.GroupVersionKind().GroupKind()
	if s.objects[kind] == nil {
		s.objects[kind] = map[string]*unstructured.Unstructured{}
	}
	s.objects[kind][object.GetNamespace()+"/"+object.GetName()] = object
}

// Keep removes the objects of a kind that a function does not return true for.
func (s *Snapshot) Keep(kind schema.GroupKind, isKept func(*unstructured.Unstructured) bool) {
	for key, object := range s.objects[kind] {
		if !isKept(object) {
			delete(s.objects[kind], key)
		}
	}
}

// Of returns the objects of a kind, sorted by namespace and name.
func (s *Snapshot) Of(kind schema.GroupKind) []*unstructured.Unstructured {
	found := make([]*unstructured.Unstructured, 0, len(s.objects[kind]))
	for _, object := range s.objects[kind] {
		found = append(found, object)
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found
}

// Kinds returns the kinds of which there are objects, sorted.
func (s *Snapshot) Kinds() []schema.GroupKind {
	var kinds []schema.GroupKind
	for kind, objects := range s.objects {
		if len(objects) > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	})
	return kinds
}

// Len returns the number of objects.
func (s *Snapshot) Len() int {
	n := len(s.Secrets)
	for _, objects := range s.objects {
		n += len(objects)
	}
	return n
}

// Secret returns a Secret, or nil if its namespace has none of that name. isKnown is false if the Secrets of the namespace were not
// read.
func (s *Snapshot) Secret(namespace, name string) (secret *Secret, isKnown bool) {
	i := slices.IndexFunc(s.Secrets, func(secret Secret) bool { return secret.Namespace == namespace && secret.Name == name })
	if i < 0 {
		return nil, s.IsComplete(Secrets, namespace)
	}
	return &s.Secrets[i], true
}

// Typed returns the objects of a kind in their Go type, sorted by namespace and name. What cannot be decoded is left out, and named
// in Unread.
func Typed[T any](s *Snapshot, kind schema.GroupKind) []*T {
	objects := s.Of(kind)
	typed := make([]*T, 0, len(objects))
	for _, object := range objects {
		into := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
			s.Unread = append(s.Unread, fmt.Sprintf("%s %s/%s cannot be decoded", kind.Kind, object.GetNamespace(), object.GetName()))
			continue
		}
		typed = append(typed, into)
	}
	return typed
}

// Finish sorts Secrets and Unread, and removes duplicates.
func (s *Snapshot) Finish() {
	slices.SortFunc(s.Secrets, func(a, b Secret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(s.Unread)
	s.Unread = slices.Compact(s.Unread)
}

// Log is the end of a container's log.
type Log struct {
	Namespace, Pod, Container string
	// Previous is true if the container was restarted since.
	Previous bool
	Text     []byte
}
