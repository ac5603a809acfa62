// Package install installs one collection in one namespace: plan, check, apply, observe. A Backend installs the operator:
// the manager itself, or the Operator Lifecycle Manager (OLM).
package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Installation is the desired state of one collection in one namespace.
type Installation struct {
	// Owner is the SubOperatorConfig that maps the namespace. Its status contains the record of the installation.
	Owner *v2beta2.SubOperatorConfig
	// OperatorCollection is the one that Owner names.
	OperatorCollection *v2beta2.OperatorCollection
	Namespace          string
	Collection         *model.Collection
	// Group is the API group of the collection's kinds.
	Group string
	// Digest is that of the collection's archive.
	Digest digest.Digest
	// Endpoints that the operator may use.
	Endpoints []render.Endpoint
	// Dependencies specifies where the collection's dependencies are downloaded from.
	Dependencies render.DependencySettings
	// Runtime has the merged settings of Owner and the OperatorCollection.
	Runtime v2beta2.RuntimeSpec
	// Backend installs the operator. It may be nil if Blocked is set.
	Backend Backend
	// Blocked is the reason why nothing but the Secret with the endpoints is updated, or nil.
	Blocked error
	// Held is the reason why the namespace keeps the version that it has, or nil. The installation is of that version.
	Held error
}

// Backend installs an operator with one install method.
type Backend interface {
	// Method returns the install method, as it is recorded in status.
	Method() v2beta2.InstallMethod
	// Plan renders the objects of the installation, except the Secret with the endpoints. It writes nothing.
	Plan(*Installation, render.InstallationOptions) (*Plan, error)
	// Replaces reports whether an operator of the same method must be removed before the planned one can be installed.
	Replaces() bool
	// Observe returns what the installation waits for before its Deployment can become available. The Deployment is nil if
	// it does not exist.
	Observe(*Installation, *Plan, *appsv1.Deployment) error
	// Notify reports the outcome of all steps, err, to the system that installs the operator. plan is nil if nothing was
	// applied.
	Notify(ctx context.Context, i *Installation, plan *Plan, err error) error
}

// Plan contains the objects of an installation.
type Plan struct {
	// Objects in the order in which they are applied.
	Objects []client.Object
	// Postponed is the subset of Objects that must not be written, or not yet. They are part of the inventory.
	Postponed []client.Object
	// Digest of the archive that the operator is told to run.
	Digest digest.Digest
	// RuntimeHash is the annotation that pods carry once they run what is planned.
	RuntimeHash string
	Warnings    []string
}

// Result is the outcome of one reconciliation of an installation.
type Result struct {
	// Namespace of the installation.
	Namespace string
	// Status is the entry for the status of the SubOperatorConfig. It is nil if nothing is or was installed.
	Status *v2beta2.InstallationStatus
	// Applied is true if all objects were applied as planned.
	Applied  bool
	Warnings []string
	// Err is the reason why the installation waits or failed, or nil.
	Err error
}

// fail records an error in the result, and in its status if the error has a reason.
func (r *Result) fail(err error) {
	r.Err = err
	if r.Status != nil && status.Is(err) {
		r.Status.Ready, r.Status.Reason, r.Status.Message = false, status.AsError(err).Reason, status.Message(err.Error())
	}
}

// hold adds why the installation keeps its version. Its operator runs as before.
func (r *Result) hold(held error) {
	if held == nil {
		return
	}
	r.Err = status.Join(held, r.Err)
	if r.Status != nil {
		r.Status.Reason, r.Status.Message = status.AsError(r.Err).Reason, status.Message(r.Err.Error())
	}
}

// Recorded returns a copy of the status entry of the installation in a namespace, or nil.
func Recorded(soc *v2beta2.SubOperatorConfig, namespace string) *v2beta2.InstallationStatus {
	for i := range soc.Status.Installations {
		if soc.Status.Installations[i].Namespace == namespace {
			return soc.Status.Installations[i].DeepCopy()
		}
	}
	return nil
}

// RecordedMethod returns the method with which the operator was installed in a namespace, or "" if it was not installed.
// Entries without a method were written by earlier versions, which only knew Direct.
func RecordedMethod(soc *v2beta2.SubOperatorConfig, namespace string) v2beta2.InstallMethod {
	recorded := Recorded(soc, namespace)
	switch {
	case recorded != nil && recorded.Install != "":
		return recorded.Install
	case recorded != nil, slices.ContainsFunc(parts(soc, namespace), func(ref v2beta2.ObjectReference) bool { return ref.Kind == "Deployment" }):
		return v2beta2.InstallDirect
	}
	return ""
}

// RecordedCollection returns the identity of the collection that a SubOperatorConfig installs. It is zero before the first
// installation. Earlier versions recorded it only in labels, which users can change: they count only if something is installed.
func RecordedCollection(soc *v2beta2.SubOperatorConfig) model.ID {
	if recorded := soc.Status.Collection; recorded != nil {
		return model.ID{Domain: recorded.Domain, Name: recorded.Name}
	}
	if len(soc.Status.Installations)+len(soc.Status.Inventory) == 0 {
		return model.ID{}
	}
	return render.IDOf(soc.Labels)
}

// WithInstallation returns the list, sorted by namespace, with one entry added or replaced.
func WithInstallation(list []v2beta2.InstallationStatus, entry v2beta2.InstallationStatus) []v2beta2.InstallationStatus {
	list = append(WithoutInstallation(list, entry.Namespace), entry)
	slices.SortFunc(list, func(a, b v2beta2.InstallationStatus) int { return strings.Compare(a.Namespace, b.Namespace) })
	return list
}

// WithoutInstallation returns the list without the entry of a namespace.
func WithoutInstallation(list []v2beta2.InstallationStatus, namespace string) []v2beta2.InstallationStatus {
	return slices.DeleteFunc(slices.Clone(list), func(i v2beta2.InstallationStatus) bool { return i.Namespace == namespace })
}

func saveStatus(ctx context.Context, c client.Client, soc, before *v2beta2.SubOperatorConfig) error {
	if err := status.Patch(ctx, c, soc, before); err != nil {
		return fmt.Errorf("recording what is installed: %w", err)
	}
	return nil
}

// Contains reports whether an object is in the inventory of a SubOperatorConfig.
func Contains(soc *v2beta2.SubOperatorConfig, kind schema.GroupKind, object client.ObjectKey) bool {
	return slices.ContainsFunc(soc.Status.Inventory, func(ref v2beta2.ObjectReference) bool {
		return ref.Name == object.Name && ref.Namespace == object.Namespace &&
			schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind() == kind
	})
}

// Namespaces returns the namespaces in which a SubOperatorConfig has installed anything, sorted.
func Namespaces(soc *v2beta2.SubOperatorConfig) []string {
	var namespaces []string
	for _, installation := range soc.Status.Installations {
		namespaces = append(namespaces, installation.Namespace)
	}
	for _, ref := range soc.Status.Inventory {
		namespaces = append(namespaces, namespaceOf(ref))
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// OperatorsOf returns the ServiceAccounts of the operators that a SubOperatorConfig has installed, whatever installed them.
func OperatorsOf(soc *v2beta2.SubOperatorConfig) []rbacv1.Subject {
	id := RecordedCollection(soc)
	if id.Name == "" {
		return nil
	}
	var operators []rbacv1.Subject
	for _, installation := range soc.Status.Installations {
		operators = append(operators, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: installation.Namespace, Name: id.OperatorName()})
	}
	return operators
}

// OperatorsChanged reports whether a SubOperatorConfig has installed or removed an operator.
func OperatorsChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*v2beta2.SubOperatorConfig)
	after, isOther := e.ObjectNew.(*v2beta2.SubOperatorConfig)
	return isOne && isOther && !slices.Equal(OperatorsOf(before), OperatorsOf(after))
}

// parts returns the inventory of the installation in a namespace.
func parts(soc *v2beta2.SubOperatorConfig, namespace string) []v2beta2.ObjectReference {
	var found []v2beta2.ObjectReference
	for _, ref := range soc.Status.Inventory {
		if namespaceOf(ref) == namespace {
			found = append(found, ref)
		}
	}
	return found
}

// namespaceOf returns the namespace of the installation that an object belongs to.
func namespaceOf(ref v2beta2.ObjectReference) string {
	if ref.Namespace != "" {
		return ref.Namespace
	}
	return render.ClusterRoleNamespace(ref.Name)
}

// AnnotationOwner is [render.AnnotationOwner].
const AnnotationOwner = render.AnnotationOwner

// OwnerOf returns the SubOperatorConfig that an object names. Anybody can write the annotation: only its inventory confirms it.
func OwnerOf(object client.Object) (key client.ObjectKey, ok bool) {
	key.Namespace, key.Name, ok = strings.Cut(object.GetAnnotations()[AnnotationOwner], "/")
	return key, ok
}

// setOwner marks an object as created for a SubOperatorConfig, without an owner reference: the garbage collector follows those before
// finalizers have run. Objects that installations share have no owner.
func setOwner(soc *v2beta2.SubOperatorConfig, object client.Object) {
	if IsSharedGroup(object) {
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationOwner] = soc.Namespace + "/" + soc.Name
	object.SetAnnotations(annotations)
}

// OwnedBy accepts objects that were created for a SubOperatorConfig, the OperatorGroup that all installations share, and what a
// replaced installation has left to those of the same namespace.
func OwnedBy(soc *v2beta2.SubOperatorConfig) apply.Ours {
	return func(live client.Object) bool {
		if live.GetObjectKind().GroupVersionKind().Kind == operatorsv1.OperatorGroupKind {
			return IsSharedGroup(live)
		}
		owner, ok := OwnerOf(live)
		return ok && render.IDOf(live.GetLabels()) != model.ID{} && owner == client.ObjectKeyFromObject(soc) || isLeftTo(soc, live)
	}
}

// IsSharedGroup reports whether an object is the OperatorGroup that all installations in a namespace share.
func IsSharedGroup(object client.Object) bool {
	return object.GetName() == render.OperatorGroupName && object.GetLabels()[render.LabelManagedBy] == render.ManagedBy
}

// annotationLeft marks a Secret of an installation that was removed because another collection replaces its own. It has nothing but
// what must not change, for the next installation of a SubOperatorConfig in the same namespace.
const annotationLeft = "zoscb.ibm.com/left-for-replacement"

// isLeftTo reports whether a replaced installation has left an object to those of the namespace of a SubOperatorConfig.
func isLeftTo(soc *v2beta2.SubOperatorConfig, live client.Object) bool {
	owner, ok := OwnerOf(live)
	return ok && live.GetAnnotations()[annotationLeft] != "" && owner.Namespace == soc.Namespace && render.IDOf(live.GetLabels()) != model.ID{}
}
