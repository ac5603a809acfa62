package adopt

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// New plans the adoption of a cluster.
func New(s State) Plan {
	p := Plan{}
	p.planDefinitions(s)
	if p.Adopted {
		return Plan{Adopted: true, Problems: s.ActiveProduct()}
	}
	p.Problems = append(slices.Concat(p.Problems, s.ActiveProduct()), s.OwnManagers()...)
	p.planCollections(s)
	p.planConsents(s)
	p.planOwn(s)
	p.planKinds(s)
	p.planFormer(s)
	p.planRemovals(s)
	p.planOwners(s)
	p.notePackages(s)
	p.noteCredentials(s)
	return p
}

// planDefinitions plans the CRDs of the product's own kinds.
func (p *Plan) planDefinitions(s State) {
	p.Adopted = true
	for _, live := range s.Definitions {
		if live.Spec.Group != Group {
			continue
		}
		p.Adopted = p.Adopted && live.Labels[LabelPartOf] == PartOf
		want := find(s.Own, live.Name)
		if want == nil {
			want = leftBehind(live)
			p.Notices = append(p.Notices, fmt.Sprintf("CRD %s is of a kind that Collection Operator does not have: it stays with its %d objects, and nothing acts on them",
				live.Name, len(s.Objects[live.Name])))
		}
		want = want.DeepCopy()
		want.UID, want.ResourceVersion = live.UID, live.ResourceVersion
		d := Definition{Live: live, Want: want}
		p.Definitions = append(p.Definitions, d)
		p.Problems = append(p.Problems, conversionProblems(live, d.Rewrites())...)
		if live.Spec.Scope != want.Spec.Scope || live.Spec.Names.Kind != want.Spec.Names.Kind {
			p.Problems = append(p.Problems, fmt.Sprintf("CRD %s is of kind %s and %s, and that of Collection Operator of kind %s and %s, which cannot be changed",
				live.Name, live.Spec.Names.Kind, live.Spec.Scope, want.Spec.Names.Kind, want.Spec.Scope))
		}
		if wanted := StorageVersion(want); VersionToRead(live, s.Own) != wanted {
			p.Problems = append(p.Problems, fmt.Sprintf("CRD %s does not serve version %s, which Collection Operator has: upgrade the product to a release that does",
				live.Name, wanted))
		}
	}
	slices.SortFunc(p.Definitions, func(a, b Definition) int { return strings.Compare(a.Live.Name, b.Live.Name) })
}

// leftBehind returns a CRD of the product that Collection Operator has no use for. With the label, the manager starts beside it.
func leftBehind(live *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	kept := live.DeepCopy()
	metav1.SetMetaDataLabel(&kept.ObjectMeta, LabelPartOf, PartOf)
	return kept
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

// planCollections finds which collections there are, and whether their archives can be had.
func (p *Plan) planCollections(s State) {
	for _, oc := range s.Objects[collections] {
		c := Collection{Object: oc}
		c.ID, c.Version = identify(oc)
		c.URL, _, _ = unstructured.NestedString(oc.Object, "spec", "collectionURL")
		if c.ID == (model.ID{}) {
			p.Problems = append(p.Problems, fmt.Sprintf("%s: which collection it has is neither in its labels nor in its name: kubectl label operatorcollections.%s %s -n %s %s=<domain> %s=<name> %s=<version>",
				title(oc), Group, oc.GetName(), oc.GetNamespace(), render.LabelDomain, render.LabelName, render.LabelVersion))
		} else {
			p.findArchive(s, &c)
		}
		p.Collections = append(p.Collections, c)
	}
}

// findArchive looks for the archive of a collection. That of an upload is only in a volume of the product.
func (p *Plan) findArchive(s State, c *Collection) {
	var found []Archive
	for _, archive := range s.Archives {
		if archive.Collection.ID() == c.ID && (c.Version == "" || archive.Collection.Version.String() == c.Version) {
			found = append(found, archive)
		}
	}
	slices.SortFunc(found, func(a, b Archive) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
	found = slices.CompactFunc(found, func(a, b Archive) bool { return a.Digest == b.Digest })
	switch len(found) {
	case 0:
		if c.URL != "" { // It is only needed if there are resources: see planContent.
			return
		}
		p.Problems = append(p.Problems, fmt.Sprintf("%s: its archive was uploaded, and only the volume of the product has it: copy it while the product runs, and name the folder with --archives: %s",
			title(c.Object), s.archiveSource(c.Object)))
	case 1:
		c.Archive = &found[0]
	default:
		p.Problems = append(p.Problems, fmt.Sprintf("%s: %s and %s are different archives of %s %s: leave only that in the folder which the product runs",
			title(c.Object), found[0].File, found[1].File, c.ID, c.Version))
	}
}

func (p *Plan) change(live, want *unstructured.Unstructured, what string) {
	p.Changes = append(p.Changes, Change{Live: live, Want: want, What: what})
}

// planOwn plans the objects of the product's own kinds: their spec must be one that Collection Operator accepts.
func (p *Plan) planOwn(s State) {
	for _, d := range p.Definitions {
		for _, object := range s.Objects[d.Live.Name] {
			p.Kept = append(p.Kept, object)
			if find(s.Own, d.Want.Name) == nil {
				continue
			}
			problems, unknown := misfits(d.Want, object)
			p.Problems = append(p.Problems, problems...)
			p.planUnknown(s, object, unknown)
			if left := s.foreign(object); len(left) > 0 {
				p.Notices = append(p.Notices, fmt.Sprintf("%s has finalizers of the product, which adopt --finish removes: %s", title(object), strings.Join(left, ", ")))
			}
			p.noteUnknown(s, object)
			if !fitsStatus(object) {
				want := object.DeepCopy()
				delete(want.Object, "status")
				p.change(object, want, "remove its status, which is not in a known form; the manager writes a new one")
			}
		}
	}
}

// planUnknown refuses to drop fields of a spec, unless the user accepts it. They are in the backup.
func (p *Plan) planUnknown(s State, object *unstructured.Unstructured, fields []string) {
	for _, field := range fields {
		what := fmt.Sprintf("%s: Collection Operator does not know %s: the field is dropped when the object is next written", title(object), field)
		if s.DropFields {
			p.Notices = append(p.Notices, what)
			continue
		}
		p.Problems = append(p.Problems, what+". To accept that, add --drop-fields: the backup has the value, and --back restores it")
	}
}

// IsForeign reports whether a finalizer is the other product's.
func (s State) IsForeign(finalizer string) bool {
	if slices.Contains(s.Finalizers, finalizer) {
		return true
	}
	domain, _, _ := strings.Cut(finalizer, "/")
	return finalizer != render.Finalizer && !slices.Contains(ownFinalizers, finalizer) && (domain == Group || strings.HasSuffix(domain, "."+Group))
}

// noteUnknown names the finalizers of an object that belong to neither product: a deletion waits for whoever set them.
func (p *Plan) noteUnknown(s State, o *unstructured.Unstructured) {
	for _, name := range o.GetFinalizers() {
		if name != render.Finalizer && !slices.Contains(ownFinalizers, name) && !s.IsForeign(name) {
			p.Notices = append(p.Notices, fmt.Sprintf("%s keeps its finalizer %s: if it is the product's, name it with --finalizer", title(o), name))
		}
	}
}

// foreign are the finalizers of an object that are the other product's.
func (s State) foreign(o *unstructured.Unstructured) []string {
	return slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(name string) bool { return !s.IsForeign(name) })
}
