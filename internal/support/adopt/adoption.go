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
			title(c.Object), archiveSource(c.Object)))
	case 1:
		c.Archive = &found[0]
	default:
		p.Problems = append(p.Problems, fmt.Sprintf("%s: %s and %s are different archives of %s %s: leave only that in the folder which the product runs",
			title(c.Object), found[0].File, found[1].File, c.ID, c.Version))
	}
}

// planConsents asks for the consent of namespaces that lose the operator of the product and would get none instead.
func (p *Plan) planConsents(s State) {
	for _, config := range s.Objects[configs] {
		for _, namespace := range Mapped(config) {
			annotations, exists := s.Namespaces[namespace]
			switch {
			case s.allows(namespace, config.GetNamespace()):
			case !exists:
				p.Notices = append(p.Notices, fmt.Sprintf("%s maps namespace %s, which does not exist", title(config), namespace))
			default:
				allowed := shellWord(strings.TrimPrefix(annotations[annotationAllow]+","+config.GetNamespace(), ","))
				p.Problems = append(p.Problems, fmt.Sprintf("%s maps namespace %s, which does not allow it: Collection Operator would install no operator there. Ask an owner of the namespace for: "+
					"kubectl annotate --overwrite namespace %s %s=%s", title(config), namespace, namespace, annotationAllow, allowed))
			}
		}
	}
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
			planUnknown(p, s, object, unknown)
			if left := foreign(s, object); len(left) > 0 {
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
func planUnknown(p *Plan, s State, object *unstructured.Unstructured, fields []string) {
	for _, field := range fields {
		what := fmt.Sprintf("%s: Collection Operator does not know %s: the field is dropped when the object is next written", title(object), field)
		if s.DropFields {
			p.Notices = append(p.Notices, what)
			continue
		}
		p.Problems = append(p.Problems, what+". To accept that, add --drop-fields: the backup has the value, and --back restores it")
	}
}

// planFormer refuses to continue an adoption with another backup: it would take what the first attempt has written for how the cluster was.
func (p *Plan) planFormer(s State) {
	var claimed []string
	for _, claim := range p.Claims {
		if claim.Live.Annotations[render.AnnotationClaimedBy] != "" {
			claimed = append(claimed, claim.Live.Name)
		}
	}
	if len(claimed) > 0 && !s.HasBackup {
		names := strings.Join(claimed, " ")
		p.Problems = append(p.Problems, fmt.Sprintf("an adoption was begun with another folder, and changed the CRDs %s: name that folder with --backup. "+
			"Only if it does not exist any more, or its adoption was undone, and you do without a way back to the state before: kubectl annotate crd %s %s-", names, names, render.AnnotationClaimedBy))
	}
}
