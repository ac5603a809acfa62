// Package adopt plans how Collection Operator takes over a cluster from IBM z/OS Cloud Broker, and back: which objects stay, which are
// changed and removed, what keeps it from being possible, and what a backup needs. It neither reads nor writes a cluster.
//
// That product is closed. What is relied on here is public: names of kinds, fields and labels in IBM's SDK for collections and in its
// editor extension, and names of workloads in the example output of the product's must-gather script.
package adopt

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// LabelPartOf and PartOf are on every CRD that Collection Operator installs for itself. Without them its manager does not start.
const (
	LabelPartOf = "app.kubernetes.io/part-of"
	PartOf      = "collection-operator"
)

// Group is the API group of the kinds that both products have.
var Group = v2beta2.GroupVersion.Group

// names of CRDs of that group.
const (
	collections = "operatorcollections.zoscb.ibm.com"
	configs     = "suboperatorconfigs.zoscb.ibm.com"
	brokers     = "zoscloudbrokers.zoscb.ibm.com"
)

// State is what a cluster has that adoption is about.
type State struct {
	// Definitions are the CRDs of all API groups that IsGroup accepts.
	Definitions []*apiextensionsv1.CustomResourceDefinition
	// Own are the CRDs of the group as Collection Operator installs them.
	Own []*apiextensionsv1.CustomResourceDefinition
	// Objects are the custom resources by the name of their CRD, each read through VersionToRead.
	Objects map[string][]*unstructured.Unstructured
	// Workloads are the Deployments and StatefulSets of the cluster.
	Workloads []*unstructured.Unstructured
	// Packages are the Subscriptions and ClusterServiceVersions of the cluster, if it has the Operator Lifecycle Manager.
	Packages []*unstructured.Unstructured
	// Accounts are ServiceAccounts, Roles and RoleBindings in the namespaces of Operators.
	Accounts []*unstructured.Unstructured
	// Webhooks are the ValidatingWebhookConfigurations and MutatingWebhookConfigurations of the cluster.
	Webhooks []*unstructured.Unstructured
	// Pods are in the namespaces of managers of both products, with their labels.
	Pods []*unstructured.Unstructured
	// Namespaces are the annotations of those that SubOperatorConfigs map, by name. One that does not exist is missing.
	Namespaces map[string]map[string]string
	// Credentials are the Secrets that SubOperatorConfigs name, without their content.
	Credentials []Credential
	// Archives are those that a user has of collections.
	Archives []Archive
	// Proven are the UIDs of objects that a former attempt, which was interrupted, has saved as the product's and began to remove.
	Proven map[types.UID]bool
	// HasBackup is true if the folder that the user names has the backup of an adoption that was begun.
	HasBackup bool
	// Finalizers are those of the other product that IsForeign would not recognise.
	Finalizers []string
	// DropFields accepts that objects of the product's own kinds lose the fields that Collection Operator does not know.
	DropFields bool
}

// Archive is a collection in a file.
type Archive struct {
	File       string
	Digest     digest.Digest
	Collection *model.Collection
}

// Credential is what is known of a Secret.
type Credential struct {
	Namespace, Name string
	// Exists is false if there is no such Secret. Usable is true if it is a credential that the product has not encrypted.
	Exists, Usable bool
}

// IsGroup reports whether an API group is that of the product, or one of kinds of collections.
func IsGroup(group string) bool { return group == Group || strings.HasSuffix(group, "."+Group) }

// isCollectionGroup reports whether an API group has kinds of collections that Collection Operator can take over.
func isCollectionGroup(group string) bool {
	return group == model.Group || strings.HasSuffix(group, "."+model.Group)
}

// VersionToRead is the version of a CRD through which its custom resources are read and written: that of Collection Operator for its
// own kinds, if it is served, and otherwise the storage version.
func VersionToRead(definition *apiextensionsv1.CustomResourceDefinition, own []*apiextensionsv1.CustomResourceDefinition) string {
	wanted := ""
	if mine := find(own, definition.Name); mine != nil {
		wanted = StorageVersion(mine)
	}
	served := ""
	for _, version := range definition.Spec.Versions {
		switch {
		case version.Served && version.Name == wanted:
			return wanted
		case version.Served && (version.Storage || served == ""):
			served = version.Name
		}
	}
	return served
}

func find(definitions []*apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinition {
	at := slices.IndexFunc(definitions, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == name })
	if at < 0 {
		return nil
	}
	return definitions[at]
}

// StorageVersion is the version in which the API server stores objects of a CRD.
func StorageVersion(definition *apiextensionsv1.CustomResourceDefinition) string {
	at := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if at < 0 {
		return ""
	}
	return definition.Spec.Versions[at].Name
}

// Operator is what runs the playbooks of a collection in a namespace. Both products give it the same name.
type Operator struct {
	Namespace string
	ID        model.ID
}

// Name of its Deployment and ServiceAccount, and before ".v" that of its ClusterServiceVersion.
func (o Operator) Name() string { return o.ID.OperatorName() }

// Operators are those that the SubOperatorConfigs of a cluster ask for, in namespaces that allow it, sorted.
func (s State) Operators() []Operator {
	var operators []Operator
	for _, config := range s.Objects[configs] {
		id := s.idOf(config)
		for _, namespace := range Mapped(config) {
			if id != (model.ID{}) && s.allows(namespace, config.GetNamespace()) {
				operators = append(operators, Operator{Namespace: namespace, ID: id})
			}
		}
	}
	slices.SortFunc(operators, func(a, b Operator) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.ID.String(), b.ID.String()))
	})
	return slices.Compact(operators)
}

// Mapped are the namespaces that a SubOperatorConfig maps.
func Mapped(config *unstructured.Unstructured) []string {
	var names []string
	mappings, _, _ := unstructured.NestedSlice(config.Object, "spec", "mapping")
	for _, mapping := range mappings {
		fields, _ := mapping.(map[string]any)
		if namespace, _ := fields["namespace"].(string); namespace != "" {
			names = append(names, namespace)
		}
	}
	return names
}

// Configs are the SubOperatorConfigs of a cluster.
func (s State) Configs() []*unstructured.Unstructured { return s.Objects[configs] }

// annotationAllow on a namespace lists the namespaces, separated by commas, whose SubOperatorConfigs may map it. The manager installs
// nothing in another one.
const annotationAllow = "zoscb.ibm.com/allow-mapping-from"

// allows reports whether a namespace lets SubOperatorConfigs in the namespace from map it.
func (s State) allows(namespace, from string) bool {
	if namespace == from {
		return true
	}
	for allowed := range strings.SplitSeq(s.Namespaces[namespace][annotationAllow], ",") {
		if strings.TrimSpace(allowed) == from {
			return true
		}
	}
	return false
}

// idOf returns the collection that a SubOperatorConfig is about.
func (s State) idOf(config *unstructured.Unstructured) model.ID {
	name, _, _ := unstructured.NestedString(config.Object, "spec", "operatorCollection")
	for _, oc := range s.Objects[collections] {
		if oc.GetNamespace() == config.GetNamespace() && oc.GetName() == name {
			id, _ := identify(oc)
			return id
		}
	}
	return model.ID{}
}

// conventional is how the SDK and the documentation of the product name OperatorCollections: <name>.<domain>.<version>.
var conventional = regexp.MustCompile(`^([^.]+)\.(.+?)\.(\d+\.\d+\.\d+.*)$`)

// identify returns which collection an OperatorCollection has, in which version: its labels say so, or its name.
func identify(oc *unstructured.Unstructured) (id model.ID, version string) {
	labels := oc.GetLabels()
	id = model.ID{Domain: labels[render.LabelDomain], Name: labels[render.LabelName]}
	version = labels[render.LabelVersion]
	parts := conventional.FindStringSubmatch(oc.GetName())
	if id.Domain == "" || id.Name == "" {
		if parts == nil {
			return model.ID{}, version
		}
		id = model.ID{Domain: parts[2], Name: parts[1]}
	}
	if version == "" && parts != nil {
		version = parts[3]
	}
	return id, version
}

// IsForeign reports whether a finalizer is the other product's.
func (s State) IsForeign(finalizer string) bool {
	if slices.Contains(s.Finalizers, finalizer) {
		return true
	}
	domain, _, _ := strings.Cut(finalizer, "/")
	return finalizer != render.Finalizer && !slices.Contains(ownFinalizers, finalizer) && (domain == Group || strings.HasSuffix(domain, "."+Group))
}

// foreign are the finalizers of an object that are the other product's.
func foreign(s State, o *unstructured.Unstructured) []string {
	return slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(name string) bool { return !s.IsForeign(name) })
}

// ownFinalizers are those of Collection Operator on OperatorCollections, SubOperatorConfigs and ZosEndpoints.
var ownFinalizers = []string{"zoscb.ibm.com/finalizer", metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}

// plainWord is text that a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:=@,+-]+$`)

// shellWord returns text as one word of a command that a user may copy: objects of a cluster have text of others.
func shellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// withoutQuery returns a URL without what may be a secret in it.
func withoutQuery(url string) string {
	url, _, _ = strings.Cut(url, "?")
	if scheme, rest, ok := strings.Cut(url, "://"); ok {
		host, path, _ := strings.Cut(rest, "/")
		return scheme + "://" + host[strings.LastIndex(host, "@")+1:] + "/" + path
	}
	return url
}

// title names an object in reports: kind namespace/name.
func title(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}

func titles(objects []*unstructured.Unstructured) []string {
	var names []string
	for _, o := range objects {
		names = append(names, title(o))
	}
	return names
}
