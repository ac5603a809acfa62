package adopt

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// Plan is what adoption does to a cluster. With Problems, nothing is done.
type Plan struct {
	// Problems keep it from being done, Notices are what an administrator must know or do besides.
	Problems, Notices []string
	// Adopted is true if the API group belongs to Collection Operator already, or to nobody: there is nothing to do. Problems say then what
	// of the product is active nevertheless.
	Adopted bool
	// Collections and Resources are what is taken over.
	Collections []Collection
	Resources   []Resource
	// Claims are made first. From then on, CRDs say themselves which collection they are of, and that an adoption was begun, so that it can
	// be repeated.
	Claims []Claim
	// Remove are objects that are deleted next, in this order: the operators of the product, and its webhooks.
	Remove []*unstructured.Unstructured
	// Changes are made after that.
	Changes []Change
	// Definitions are the CRDs of the product's own kinds, which are replaced last: as long as one is not, no manager of Collection
	// Operator starts.
	Definitions []Definition
	// Kept are the custom resources that stay, whether they are changed or not.
	Kept []*unstructured.Unstructured
}

// Collection is an OperatorCollection that is taken over.
type Collection struct {
	Object  *unstructured.Unstructured
	ID      model.ID
	Version string
	// URL of its archive. Without one, Archive is what the user has.
	URL     string
	Archive *Archive
	// Kinds are the CRDs that it owns.
	Kinds []string
}

// Resource is a custom resource of a collection.
type Resource struct {
	Object *unstructured.Unstructured
	// Runs says why its playbook runs once an operator of Collection Operator sees it. Empty means that it does not run.
	Runs string
}

// Change is an object as it is, and as it is to be. Its status counts too.
type Change struct {
	Live, Want *unstructured.Unstructured
	// What says it in a report.
	What string
}

// Definition is a CRD as it is, and as Collection Operator installs it.
type Definition struct {
	Live, Want *apiextensionsv1.CustomResourceDefinition
}

// Claim is a CRD of a collection that gets its owner.
type Claim struct {
	Definition
	ID        model.ID
	Namespace string
}

// Rewrites are the versions that Want does not have and in which objects may be stored. They are rewritten before Want replaces Live.
func (d Definition) Rewrites() []string {
	return slices.DeleteFunc(slices.Clone(d.Live.Status.StoredVersions), func(name string) bool {
		return slices.ContainsFunc(d.Want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name })
	})
}

// Unlabelled returns Want without the label by which a CRD counts as adopted, unless Live has it: it is written last, so that an adoption that
// ends before is continued, and no manager starts.
func (d Definition) Unlabelled() *apiextensionsv1.CustomResourceDefinition {
	want := d.Want.DeepCopy()
	if d.Live.Labels[LabelPartOf] != PartOf {
		delete(want.Labels, LabelPartOf)
	}
	return want
}

// Between returns the CRD with which objects are rewritten: Unlabelled with the versions of Rewrites, which are not served.
func (d Definition) Between() *apiextensionsv1.CustomResourceDefinition {
	between := d.Unlabelled()
	for _, version := range d.Live.Spec.Versions {
		if slices.Contains(d.Rewrites(), version.Name) {
			version.Served, version.Storage = false, false
			between.Spec.Versions = append(between.Spec.Versions, version)
		}
	}
	return between
}

func (p *Plan) change(live, want *unstructured.Unstructured, what string) {
	p.Changes = append(p.Changes, Change{Live: live, Want: want, What: what})
}

// noteUnknown names the finalizers of an object that belong to neither product: a deletion waits for whoever set them.
func (p *Plan) noteUnknown(s State, o *unstructured.Unstructured) {
	for _, name := range o.GetFinalizers() {
		if name != render.Finalizer && !slices.Contains(ownFinalizers, name) && !s.IsForeign(name) {
			p.Notices = append(p.Notices, fmt.Sprintf("%s keeps its finalizer %s: if it is the product's, name it with --finalizer", title(o), name))
		}
	}
}

// conversionProblems refuses a CRD whose objects only the product can convert.
func conversionProblems(live *apiextensionsv1.CustomResourceDefinition, others []string) []string {
	if conversion := live.Spec.Conversion; conversion == nil || conversion.Strategy != apiextensionsv1.WebhookConverter || len(others) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("CRD %s converts its objects with a webhook of the product, and some may be stored in version %s: while the product runs, write "+
		"each of them once (kubectl get %s -A -o yaml | kubectl replace -f -), and remove the version from status.storedVersions of the CRD",
		live.Name, strings.Join(others, ", "), live.Name)}
}
