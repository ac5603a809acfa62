package adopt

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// owner is a collection in the namespace that imported it first.
type owner struct {
	id        model.ID
	namespace string
	created   time.Time
}

// planKinds plans the CRDs of collections, and their custom resources.
func (p *Plan) planKinds(s State) {
	owners := ownersOf(s)
	for _, definition := range s.Definitions {
		if definition.Spec.Group == Group {
			continue
		}
		resources := s.Objects[definition.Name]
		p.Kept = append(p.Kept, resources...)
		of := owners[definition.Name]
		switch {
		case !isCollectionGroup(definition.Spec.Group):
			p.Notices = append(p.Notices, fmt.Sprintf("CRD %s is in an API group of former releases of the product: it stays with its %d objects, and nothing acts on them",
				definition.Name, len(resources)))
		case len(of) == 0 && len(resources) == 0:
			p.Notices = append(p.Notices, fmt.Sprintf("CRD %s belongs to no SubOperatorConfig and has no objects: it stays as it is", definition.Name))
		case len(of) == 0:
			p.Problems = append(p.Problems, fmt.Sprintf("CRD %s has %d objects, and no SubOperatorConfig names it in status.customresourcedefinition: label it with %s and %s of its collection",
				definition.Name, len(resources), render.LabelDomain, render.LabelName))
		case slices.ContainsFunc(of, func(other owner) bool { return other.id != of[0].id }):
			p.Problems = append(p.Problems, fmt.Sprintf("CRD %s belongs to several collections, %s and %s: one kind can have one collection; remove the SubOperatorConfig of the other",
				definition.Name, of[0].id, of[len(of)-1].id))
		default:
			p.claim(definition, of[0])
			p.planContent(&p.Claims[len(p.Claims)-1], resources)
			p.planResources(s, resources, of[0].id)
		}
	}
}

// ownersOf returns the collections that have a CRD, by its name, the oldest first: SubOperatorConfigs name those of their collection in
// status, and an administrator can label others.
func ownersOf(s State) map[string][]owner {
	owners := map[string][]owner{}
	for _, config := range s.Objects[configs] {
		id := s.idOf(config)
		named, _, _ := unstructured.NestedSlice(config.Object, "status", "customresourcedefinition")
		for _, entry := range named {
			fields, _ := entry.(map[string]any)
			name, _, _ := unstructured.NestedString(fields, "metadata", "name")
			if name != "" && id != (model.ID{}) {
				owners[name] = append(owners[name], owner{id, config.GetNamespace(), config.GetCreationTimestamp().Time})
			}
		}
	}
	for _, definition := range s.Definitions {
		id := model.ID{Domain: definition.Labels[render.LabelDomain], Name: definition.Labels[render.LabelName]}
		if len(owners[definition.Name]) > 0 || id.Domain == "" || id.Name == "" {
			continue
		}
		for _, oc := range s.Objects[collections] {
			if other, _ := identify(oc); other == id {
				owners[definition.Name] = append(owners[definition.Name], owner{id, oc.GetNamespace(), oc.GetCreationTimestamp().Time})
			}
		}
	}
	for _, of := range owners {
		slices.SortFunc(of, func(a, b owner) int {
			return cmp.Or(a.created.Compare(b.created), strings.Compare(a.namespace+a.id.String(), b.namespace+b.id.String()))
		})
	}
	return owners
}

// publishedByProduct stands for the digest of the archive that the product made a version of. With it, the manager takes the version for
// published, and refuses an archive with which resources would lose something.
const publishedByProduct = "adopted"

// claim plans that a CRD belongs to a collection and to the namespace that imported it, so that nobody else can take it.
func (p *Plan) claim(live *apiextensionsv1.CustomResourceDefinition, of owner) {
	for i := range p.Collections {
		if c := &p.Collections[i]; c.ID == of.id {
			c.Kinds = append(c.Kinds, live.Name)
		}
	}
	p.Problems = append(p.Problems, conversionProblems(live, slices.DeleteFunc(slices.Clone(live.Status.StoredVersions), func(name string) bool { return name == StorageVersion(live) }))...)
	want := live.DeepCopy()
	for name, value := range render.IdentityLabels(of.id) {
		metav1.SetMetaDataLabel(&want.ObjectMeta, name, value)
	}
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, render.AnnotationClaimedBy, of.namespace)
	for _, version := range live.Spec.Versions {
		if name := render.AnnotationDigest + version.Name; want.Annotations[name] == "" {
			metav1.SetMetaDataAnnotation(&want.ObjectMeta, name, publishedByProduct)
		}
	}
	want.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	p.Claims = append(p.Claims, Claim{Definition: Definition{Live: live, Want: want}, ID: of.id, Namespace: of.namespace})
}

// planResources plans custom resources: their finalizers become that of Collection Operator, so that their deletion runs the same playbook.
func (p *Plan) planResources(s State, resources []*unstructured.Unstructured, of model.ID) {
	operators := s.Operators()
	for _, object := range resources {
		operator := Operator{Namespace: object.GetNamespace(), ID: of}
		if !slices.Contains(operators, operator) {
			p.Notices = append(p.Notices, fmt.Sprintf("%s: no SubOperatorConfig maps its namespace: no operator runs its playbook, nor that of its deletion", title(object)))
		}
		if isRunning(s, object, operator) {
			p.Problems = append(p.Problems, cutOff(object, of))
		}
		p.Resources = append(p.Resources, Resource{Object: object, Runs: whyRuns(object)})
		p.noteUnknown(s, object)
		if changedSince(object) {
			p.Notices = append(p.Notices, fmt.Sprintf("%s: its spec was changed after its last successful run. Its playbook does not run by itself: run it with kubectl collection rerun", title(object)))
		}
		if len(foreign(s, object)) == 0 {
			continue
		}
		if object.GetDeletionTimestamp() != nil {
			p.Problems = append(p.Problems, fmt.Sprintf("%s is being deleted, and waits for the product's finalizer %s: let the product finish it; if an adoption that was interrupted has removed its operator, go back with --back", title(object), strings.Join(foreign(s, object), ", ")))
			continue
		}
		want := object.DeepCopy()
		kept := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), s.IsForeign)
		what := fmt.Sprintf("finalizer %s is removed, since its collection has no deletion playbook", strings.Join(foreign(s, object), ", "))
		if hasDeletion(p, of, object.GetKind()) {
			what = fmt.Sprintf("finalizer %s becomes %s", strings.Join(foreign(s, object), ", "), render.Finalizer)
			if !slices.Contains(kept, render.Finalizer) {
				kept = append(kept, render.Finalizer)
			}
		}
		want.SetFinalizers(kept)
		p.change(object, want, what)
	}
}

// hasDeletion reports whether a kind of a collection has a deletion playbook in one of its archives. Without one, no operator would remove
// the finalizer.
func hasDeletion(p *Plan, of model.ID, kind string) bool {
	return slices.ContainsFunc(p.Collections, func(c Collection) bool {
		if c.ID != of || c.Archive == nil {
			return false
		}
		resource, _ := c.Archive.Collection.Resource(kind)
		return resource.Finalizer != ""
	})
}

// isRunning reports whether a playbook runs for a custom resource: its status says so, and its operator is not stopped.
func isRunning(s State, object *unstructured.Unstructured, operator Operator) bool {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	running := condition(status, runstatus.ConditionRunning)
	if !isTrue(running) || running["reason"] != runstatus.ConditionRunning {
		return false
	}
	return slices.ContainsFunc(s.Workloads, func(w *unstructured.Unstructured) bool {
		return w.GetNamespace() == operator.Namespace && w.GetName() == operator.Name() && replicas(w) != 0
	})
}

// cutOff says that a playbook runs. A run that waits for its next attempt has the same status.
func cutOff(object *unstructured.Unstructured, of model.ID) string {
	operator := Operator{Namespace: object.GetNamespace(), ID: of}
	return fmt.Sprintf("%s: its playbook runs, and would be cut off: wait until it has ended, or stop its operator: kubectl scale deployment %s -n %s --replicas=0",
		title(object), operator.Name(), operator.Namespace)
}

// whyRuns says why the gate would start the playbook of a custom resource that has no record of a run. Empty means that it would not.
func whyRuns(object *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	switch {
	case object.GetDeletionTimestamp() != nil:
		return "it is being deleted"
	case runstatus.IsBaseline(status, object.GetGeneration()):
		return ""
	case isTrue(condition(status, runstatus.ConditionFailure)):
		return "its last run failed"
	case len(status) == 0:
		return "it has no status, so no run is known"
	}
	return "its status has no condition Successful that is True for its generation"
}

// changedSince reports whether a spec was written after the last successful run ended. ansible-operator does not say which generation a
// run was about; the condition changes at the start and at the end of each run.
func changedSince(object *unstructured.Unstructured) bool {
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	successful := condition(status, runstatus.ConditionSuccessful)
	ended, err := time.Parse(time.RFC3339, fmt.Sprint(successful["lastTransitionTime"]))
	if err != nil || !isTrue(successful) {
		return false
	}
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Subresource == "" && entry.Time != nil && entry.Time.After(ended) && entry.FieldsV1 != nil &&
			bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte(`"f:spec"`))
	})
}

func condition(status map[string]any, conditionType string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, item := range conditions {
		if fields, ok := item.(map[string]any); ok && fields["type"] == conditionType {
			return fields
		}
	}
	return nil
}

func isTrue(condition map[string]any) bool {
	return condition["status"] == string(metav1.ConditionTrue)
}
