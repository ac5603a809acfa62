package crd

import (
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

const thingsCRD = "things.suboperator.zoscb.ibm.com"

// contributed is what one version, made of an archive with this content, contributes to the CRD of Thing.
func contributed(t *testing.T, version, content string, vars ...model.Var) []Contribution {
	t.Helper()
	byName, err := Contributions(Version{
		Collection: testCollection(version, vars...), Digest: digest.FromString(content), Group: model.Group, Namespace: "zos",
	})
	if err != nil || len(byName[thingsCRD]) != 1 {
		t.Fatalf("got %v, %v", byName, err)
	}
	return byName[thingsCRD]
}

// withoutRuns removes from a CRD what describes runs in status.
func withoutRuns(crd *apiextensionsv1.CustomResourceDefinition) {
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	for _, field := range []string{"observedGeneration", "lastRun", "lastSuccess", "history"} {
		if _, exists := status.Properties[field]; !exists {
			panic("status has no " + field)
		}
		delete(status.Properties, field)
	}
}

// asBefore makes a CRD what earlier managers rendered: with titles that consoles hide forms behind, and without category and initial status.
func asBefore(crd *apiextensionsv1.CustomResourceDefinition) {
	if len(crd.Spec.Names.Categories) == 0 {
		panic("the kind has no category")
	}
	crd.Spec.Names.Categories = nil
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	root.Title = "Thing"
	spec, status := root.Properties["spec"], root.Properties["status"]
	spec.Title, status.Default = "Thing", nil
	root.Properties["spec"], root.Properties["status"] = spec, status
}

// Specification: Root, domain MAY: is another value in forks
// Specification: Root, name MAY: is another value in forks
// Specification: Operator Resources, version, kind MUST: are unique in the cluster together
// Specification: Operator Resources, group, version, kind MUST: are unique
func TestPlan(t *testing.T) {
	id := model.ID{Domain: "acme", Name: "things"}
	text := model.Var{Name: "size", Type: model.String}
	number := model.Var{Name: "size", Type: model.Integer}
	now := metav1.Now()
	for name, test := range map[string]struct {
		// change is made to the live CRD, which serves version 1.0.0 of the archive "old".
		change    func(*apiextensionsv1.CustomResourceDefinition)
		wanted    []Contribution
		instances string
		// reason is "" if the CRD is planned, and not if unchanged.
		reason, message string
		unchanged       bool
	}{
		"as it is":                    {wanted: contributed(t, "1.0.0", "old", text), unchanged: true},
		"a new version":               {wanted: contributed(t, "1.1.0", "new", text), instances: "Thing zos/one"},
		"a version of another type":   {wanted: contributed(t, "1.1.0", "new", number), reason: v2beta2.ReasonSchemaConflict, message: "give the field another name"},
		"two of one version":          {wanted: append(contributed(t, "1.1.0", "a", text), contributed(t, "1.1.0", "b")...), reason: v2beta2.ReasonVersionConflict},
		"loosened with instances":     {wanted: contributed(t, "1.0.0", "new", text, model.Var{Name: "x", Type: model.String}), instances: "Thing zos/one"},
		"tightened without instances": {wanted: contributed(t, "1.0.0", "new")},
		"tightened with instances": {wanted: contributed(t, "1.0.0", "new"), instances: "Thing zos/one",
			reason: v2beta2.ReasonSchemaConflict, message: "spec.size is missing: publish this archive under another version, or delete these custom resources first: Thing zos/one"},
		"published with every field": {wanted: contributed(t, "1.0.0", "new", text), instances: "Thing zos/one",
			reason: v2beta2.ReasonSchemaConflict, message: "now spec keeps no fields that are not in the schema",
			change: func(live *apiextensionsv1.CustomResourceDefinition) {
				schema := live.Spec.Versions[0].Schema.OpenAPIV3Schema
				spec := schema.Properties["spec"]
				spec.XPreserveUnknownFields = ptr.To(true)
				schema.Properties["spec"] = spec
			}},
		"rendered before status described runs": {wanted: contributed(t, "1.0.0", "new", text), instances: "Thing zos/one", change: withoutRuns},
		"rendered with titles":                  {wanted: contributed(t, "1.0.0", "old", text), instances: "Thing zos/one", change: asBefore},
		"rendered with titles, otherwise":       {wanted: contributed(t, "1.0.0", "new", text), instances: "Thing zos/one", change: asBefore},
		"of another collection": {wanted: contributed(t, "1.1.0", "new", text), reason: v2beta2.ReasonKindClash, message: "belongs to collection other/things",
			change: func(live *apiextensionsv1.CustomResourceDefinition) { live.Labels[render.LabelDomain] = "other" }},
		"of nobody": {wanted: contributed(t, "1.1.0", "new", text), reason: v2beta2.ReasonKindClash, message: "belongs to somebody else",
			change: func(live *apiextensionsv1.CustomResourceDefinition) { live.Labels = nil }},
		"being deleted": {wanted: contributed(t, "1.1.0", "new", text), reason: v2beta2.ReasonProgressing, message: "is being deleted",
			change: func(live *apiextensionsv1.CustomResourceDefinition) { live.DeletionTimestamp = &now }},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := Plan(id, nil, contributed(t, "1.0.0", "old", text), nil)
			if err != nil || first.Live != nil || first.Changed() {
				t.Fatalf("got %+v, %v", first, err)
			}
			live := first.CRD
			if test.change != nil {
				test.change(live)
			}
			planned, err := Plan(id, live, test.wanted, func() (string, error) { return test.instances, nil })
			if test.reason != "" {
				var e *Error
				if !errors.As(err, &e) || e.Reason != test.reason || !strings.Contains(err.Error(), test.message) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || planned.Live != live || planned.Changed() == test.unchanged {
				t.Fatalf("changed: %t, %v", planned.Changed(), err)
			}
			if Claimant([]apiextensionsv1.CustomResourceDefinition{*planned.CRD}) != "zos" {
				t.Error("it belongs to another namespace")
			}
			want := test.wanted[0].CRD
			version := want.Spec.Versions[0].Name
			archive := digest.Digest(want.Annotations[render.AnnotationDigest+version])
			if !Publish([]apiextensionsv1.CustomResourceDefinition{*planned.CRD}, model.Group, version, archive) {
				t.Errorf("it does not have version %s of %s", version, archive)
			}
		})
	}
	broken := errors.New("broken")
	live := contributed(t, "1.0.0", "old", text)[0].CRD
	if _, err := Plan(id, live, contributed(t, "1.0.0", "new"), func() (string, error) { return "", broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestPlanOfASuccessor(t *testing.T) {
	old, successor := model.ID{Domain: "acme", Name: "things"}, model.ID{Domain: "acme", Name: "items"}
	size, colour := model.Var{Name: "size", Type: model.String}, model.Var{Name: "colour", Type: model.String}
	now := metav1.Now()
	for name, test := range map[string]struct {
		// change is made to the live CRD of the old collection, which belongs to namespace zos.
		change          func(*apiextensionsv1.CustomResourceDefinition)
		version         string
		vars            []model.Var
		instances       string
		reason, message string
	}{
		"in the same namespace":              {version: "2.0.0", vars: []model.Var{colour}, instances: "Thing zos/one"},
		"in an older version":                {version: "0.1.0", vars: []model.Var{colour}, instances: "Thing zos/one"},
		"in the same version":                {version: "1.0.0", vars: []model.Var{size, colour}, instances: "Thing zos/one"},
		"in the same version, with less":     {version: "1.0.0", instances: "Thing zos/one", reason: v2beta2.ReasonSchemaConflict, message: "spec.size is missing"},
		"with another type of a field":       {version: "2.0.0", vars: []model.Var{{Name: "size", Type: model.Boolean}}, reason: v2beta2.ReasonSchemaConflict, message: "spec.size"},
		"while it is being deleted":          {version: "2.0.0", reason: v2beta2.ReasonProgressing, message: "is being deleted", change: func(live *apiextensionsv1.CustomResourceDefinition) { live.DeletionTimestamp = &now }},
		"of a CRD of another namespace":      {version: "2.0.0", reason: v2beta2.ReasonCollectionClaimed, message: `belongs to namespace "others"`, change: claimedBy("others")},
		"of a CRD of no namespace":           {version: "2.0.0", reason: v2beta2.ReasonKindClash, message: render.AnnotationClaimedBy, change: claimedBy("")},
		"of a CRD of yet another collection": {version: "2.0.0", reason: v2beta2.ReasonKindClash, message: "belongs to collection other/things", change: func(live *apiextensionsv1.CustomResourceDefinition) { live.Labels[render.LabelDomain] = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			live := contributed(t, "1.0.0", "old", size)[0].CRD
			if test.change != nil {
				test.change(live)
			}
			c := testCollection(test.version, test.vars...)
			c.Name, c.Replaces = successor.Name, old
			byName, err := Contributions(Version{Collection: c, Digest: digest.FromString("new"), Group: model.Group, Namespace: "zos"})
			if err != nil {
				t.Fatal(err)
			}
			planned, err := Plan(successor, live, byName[thingsCRD], func() (string, error) { return test.instances, nil })
			if test.reason != "" {
				var e *Error
				if !errors.As(err, &e) || e.Reason != test.reason || !strings.Contains(err.Error(), test.message) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !planned.Passes() || planned.Replaced != old || render.IDOf(planned.CRD.Labels) != successor {
				t.Fatalf("got %+v, %v", planned, err)
			}
			if Claimant([]apiextensionsv1.CustomResourceDefinition{*planned.CRD}) != "zos" {
				t.Error("it belongs to another namespace")
			}
			for _, version := range planned.CRD.Spec.Versions {
				fields := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties
				if _, hasSize := fields["size"]; !hasSize || fields["colour"].Type != "string" {
					t.Errorf("version %s has not all fields", version.Name)
				}
			}
			again, err := Plan(successor, planned.CRD, byName[thingsCRD], func() (string, error) { return test.instances, nil })
			if err != nil || again.Passes() || again.Changed() {
				t.Errorf("the second time: %t, %t, %v", again.Passes(), again.Changed(), err)
			}
		})
	}
}

func claimedBy(namespace string) func(*apiextensionsv1.CustomResourceDefinition) {
	return func(live *apiextensionsv1.CustomResourceDefinition) {
		live.Annotations[render.AnnotationClaimedBy] = namespace
	}
}

func TestServes(t *testing.T) {
	now := metav1.Now()
	good := func() *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v2", Served: true, Storage: true}, {Name: "v1", Served: false},
			}},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue},
				{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue},
			}},
		}
	}
	if crd := good(); !Serves(crd, "v2") || Serves(crd, "v1") || Serves(crd, "v3") {
		t.Error("it serves v2 and nothing else")
	}
	for name, change := range map[string]func(*apiextensionsv1.CustomResourceDefinition){
		"not Established": func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions[1].Status = apiextensionsv1.ConditionFalse
		},
		"being deleted": func(c *apiextensionsv1.CustomResourceDefinition) { c.DeletionTimestamp = &now },
	} {
		crd := good()
		change(crd)
		if Serves(crd, "v2") {
			t.Errorf("one that is %s serves nothing", name)
		}
	}
}
