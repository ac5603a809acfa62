package crd

import (
	"slices"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// booleans are the variables of a kind that is published with default: false for those that have no default.
func booleans() []model.Var {
	flag := func(name string, required bool) model.Var {
		return model.Var{Name: name, Type: model.Boolean, Required: required}
	}
	members := []model.Var{flag("a", false), flag("b", true)}
	return []model.Var{
		flag("optional", false), flag("required", true),
		{Name: "box", Type: model.Object, Fields: members},
		{Name: "list", Type: model.Object, Array: true, Fields: members},
	}
}

// publishedWithFalse returns a CRD as managers before 0048 wrote it.
func publishedWithFalse(t *testing.T, version string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	live := contribution(t, version, booleans()...).CRD.DeepCopy()
	live.Annotations = map[string]string{render.AnnotationDigest + live.Spec.Versions[0].Name: "sha256:a"}
	spec := live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	setFalse := func(schema *apiextensionsv1.JSONSchemaProps, names ...string) {
		for _, name := range names {
			field := schema.Properties[name]
			field.Default = &apiextensionsv1.JSON{Raw: []byte("false")}
			schema.Properties[name] = field
		}
	}
	setFalse(&spec, "optional", "required")
	box, list := spec.Properties["box"], spec.Properties["list"]
	box.Required, box.Default = nil, &apiextensionsv1.JSON{Raw: []byte("{}")}
	list.Items.Schema.Required = nil
	setFalse(&box, "a", "b")
	setFalse(list.Items.Schema, "a", "b")
	spec.Properties["box"] = box
	validate(t, live)
	return live
}

// Specification: Resource Variables, vars SHALL: are passed as extra variables
func TestMergeKeepsTheFalseOfPublishedBooleans(t *testing.T) {
	live := publishedWithFalse(t, "1.0.0")
	same := contribution(t, "1.0.0", booleans()...)
	unmerged := same.CRD.DeepCopy()
	merged := merge(t, live, same)
	if diff := cmp.Diff(live.Spec, merged.Spec); diff != "" {
		t.Errorf("the published version changed (-published +merged):\n%s", diff)
	}
	if diff := cmp.Diff(unmerged, same.CRD); diff != "" {
		t.Errorf("the contribution was changed (-before +after):\n%s", diff)
	}
	if problem := Tightened(schemaOf(live, "v1minor0patch0"), schemaOf(merged, "v1minor0patch0")); problem != "" {
		t.Error(problem)
	}

	newer := contribution(t, "1.1.0", booleans()...)
	merged = merge(t, live, same, newer)
	for _, path := range [][]string{{"optional"}, {"required"}, {"box", "a"}, {"box", "b"}, {"list", "a"}, {"list", "b"}} {
		if was, _ := fieldOf(merged, "v1minor0patch0", path...); was.Default == nil {
			t.Errorf("version 1.0.0 lost the default of %v", path)
		}
		if is, _ := fieldOf(merged, "v1minor1patch0", path...); is.Default != nil {
			t.Errorf("version 1.1.0 has a default for %v: %s", path, is.Default.Raw)
		}
	}
	if spec, _ := fieldOf(merged, "v1minor1patch0"); !slices.Contains(spec.Required, "required") {
		t.Errorf("version 1.1.0 requires %v", spec.Required)
	}
	if diff := cmp.Diff(merged, merge(t, merged, same, newer)); diff != "" {
		t.Errorf("merged again (-first +second):\n%s", diff)
	}
}

// An author who gives the boolean another default under the same version gets it.
func TestMergeTakesAnotherDefaultOfABoolean(t *testing.T) {
	live := publishedWithFalse(t, "1.0.0")
	vars := booleans()
	vars[0].Default = true
	merged := merge(t, live, contribution(t, "1.0.0", vars...))
	if field, _ := fieldOf(merged, "v1minor0patch0", "optional"); field.Default == nil || string(field.Default.Raw) != "true" {
		t.Errorf("default: %v", field.Default)
	}
}

// asRunning returns what the runtime ConfigMap and the pods of a collection are rendered as.
func asRunning(t *testing.T, c *model.Collection) (settings, hash string) {
	t.Helper()
	objects, err := render.Installation(c, render.InstallationOptions{
		Namespace: "team", Group: model.Group, Digest: "sha256:a", ArtifactURL: "http://a/b", Runtime: v2beta2.RuntimeSpec{Image: "i"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			settings = o.Data[gate.SettingsFile]
		case *appsv1.Deployment:
			hash = o.Spec.Template.Annotations[render.RuntimeHashAnnotation]
		}
	}
	return settings, hash
}

// withDefaults returns variables as managers before 0048 took them: a boolean without a default had false.
func withDefaults(vars []model.Var) []model.Var {
	vars = slices.Clone(vars)
	for i := range vars {
		vars[i].Fields = withDefaults(vars[i].Fields)
		if vars[i].Type == model.Boolean {
			vars[i].Default = false
		}
	}
	return vars
}

// An upgrade of the manager neither rolls the pods of a published version nor starts its playbooks.
func TestAPublishedVersionRunsAsBefore(t *testing.T) {
	live := publishedWithFalse(t, "1.0.0")
	cached := live.DeepCopy()
	cached.Spec.Versions[0].Schema = OnlyFalse(&cached.Spec.Versions[0])
	before, hashBefore := asRunning(t, testCollection("1.0.0", withDefaults(booleans())...))
	for name, definition := range map[string]*apiextensionsv1.CustomResourceDefinition{"live": live, "cached": cached} {
		c := testCollection("1.0.0", booleans()...)
		kind := c.Resources[0].Kind
		published := AsPublished(c, map[string]*apiextensionsv1.CustomResourceDefinition{kind: definition})
		now, hashNow := asRunning(t, published)
		if diff := cmp.Diff(before, now); diff != "" || hashBefore != hashNow {
			t.Errorf("%s: %s changed (-before +now), %s to %s:\n%s", name, gate.SettingsFile, hashBefore, hashNow, diff)
		}
		rendered, err := render.CRDs(published, model.Group)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(live.Spec, rendered[0].Spec); diff != "" {
			t.Errorf("%s: the merge and the collection do not agree (-merge +collection):\n%s", name, diff)
		}
		if diff := cmp.Diff(booleans(), c.Resources[0].Vars); diff != "" {
			t.Errorf("%s: the argument changed:\n%s", name, diff)
		}
		newer := testCollection("1.1.0", booleans()...)
		if diff := cmp.Diff(newer, AsPublished(newer, map[string]*apiextensionsv1.CustomResourceDefinition{kind: definition}), cmpopts.IgnoreUnexported(semver.Version{})); diff != "" {
			t.Errorf("%s: a new version changed:\n%s", name, diff)
		}
	}
}
