package author

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
)

// scorecardExample is a resource of alm-examples with what the bundle says about its kind.
type scorecardExample struct {
	unstructured.Unstructured
	described operatorsv1alpha1.CRDDescription
	version   apiextensionsv1.CustomResourceDefinitionVersion
}

// The rules of the tests basic-check-spec, olm-bundle-validation, olm-crds-have-validation, olm-crds-have-resources,
// olm-spec-descriptors and olm-status-descriptors of operator-sdk scorecard 1.42.2, whose code no other module can import. Each kind also
// has an example, without which those tests would look at nothing.
func TestBundlePassesScorecard(t *testing.T) {
	for _, name := range []string{"files", "habits/queues", "habits/regions", "runs"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bundle")
			mustRun(t, kit.ExitClean, "bundle", filepath.Join("../../../test/collections", name), "--output", dir)
			bundle, err := manifests.GetBundleFromDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range validation.DefaultBundleValidators.Validate(bundle.ObjectsToValidate()...) {
				for _, problem := range result.Errors {
					t.Error("olm-bundle-validation:", problem)
				}
			}
			for _, kind := range bundle.CSV.Spec.CustomResourceDefinitions.Owned {
				if len(kind.Resources) == 0 {
					t.Errorf("olm-crds-have-resources: %s has none", kind.Kind)
				}
			}
			for _, example := range scorecardExamples(t, bundle) {
				example.check(t)
			}
		})
	}
}

func scorecardExamples(t *testing.T, bundle *manifests.Bundle) (examples []scorecardExample) {
	t.Helper()
	var resources []map[string]any
	if err := json.Unmarshal([]byte(bundle.CSV.Annotations["alm-examples"]), &resources); err != nil {
		t.Fatal(err)
	}
	for _, described := range bundle.CSV.Spec.CustomResourceDefinitions.Owned {
		resource := slices.IndexFunc(resources, func(r map[string]any) bool { return r["kind"] == described.Kind })
		crd := slices.IndexFunc(bundle.V1CRDs, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == described.Name })
		if resource < 0 || crd < 0 {
			t.Fatalf("%s: example %d, CustomResourceDefinition %d", described.Kind, resource, crd)
		}
		versions := bundle.V1CRDs[crd].Spec.Versions
		version := slices.IndexFunc(versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == described.Version })
		examples = append(examples, scorecardExample{unstructured.Unstructured{Object: resources[resource]}, described, versions[version]})
	}
	return examples
}

func (e scorecardExample) check(t *testing.T) {
	t.Helper()
	spec, _, err := unstructured.NestedMap(e.Object, "spec")
	if err != nil || len(spec) == 0 {
		t.Errorf("basic-check-spec: %s: %v, %v", e.GetKind(), spec, err)
	}
	for field := range spec {
		if _, ok := e.version.Schema.OpenAPIV3Schema.Properties["spec"].Properties[field]; !ok {
			t.Errorf("olm-crds-have-validation: spec.%s of %s", field, e.GetKind())
		}
		if !slices.ContainsFunc(e.described.SpecDescriptors, func(d operatorsv1alpha1.SpecDescriptor) bool { return d.Path == field }) {
			t.Errorf("olm-spec-descriptors: spec.%s of %s", field, e.GetKind())
		}
	}
	if len(e.described.StatusDescriptors) == 0 {
		t.Errorf("olm-status-descriptors: %s has none", e.GetKind())
	}
}
