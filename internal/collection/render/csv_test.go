package render

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/crds"
	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	ofvalidation "github.com/operator-framework/api/pkg/validation"
	oferrors "github.com/operator-framework/api/pkg/validation/errors"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	crvalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func testCSVOptions(group string) ClusterServiceVersionOptions {
	settings := DefaultSettings()
	settings.RuntimeImage, settings.Architectures = "registry.example/runtime@"+testDigest, []string{"s390x", "ppc64le", "amd64", "arm64"}
	return ClusterServiceVersionOptions{
		InstallationOptions: settings.Options("", group, testDigest, "/artifacts/"+testDigest),
		ServedKinds:         map[string]runtimeschema.GroupVersion{"Neighbour": {Group: model.Group, Version: "v3minor1patch0"}},
	}
}

func mustCSV(t *testing.T, c *model.Collection, o ClusterServiceVersionOptions) *operatorsv1alpha1.ClusterServiceVersion {
	t.Helper()
	csv, err := ClusterServiceVersion(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return csv
}

// everyCollection runs a test for each test collection.
func everyCollection(t *testing.T, test func(*testing.T, *model.Collection)) {
	t.Helper()
	var configs []string
	for _, pattern := range []string{"testdata/collections/*/", "../model/testdata/*/", "../../author/lint/testdata/shapes/*/"} {
		found, err := filepath.Glob(pattern + "operator-config.y*")
		if err != nil || len(found) == 0 {
			t.Fatal("no collections found", pattern, err)
		}
		configs = append(configs, found...)
	}
	for _, config := range configs {
		t.Run(filepath.Base(filepath.Dir(config)), func(t *testing.T) {
			c, err := model.Load(os.DirFS(filepath.Dir(config)))
			if err != nil {
				t.Fatal(err)
			}
			test(t, c)
		})
	}
}

// The Operator Framework's validators only warn about the minimum version of Kubernetes, which is unknown.
func TestValidatorsAcceptTheClusterServiceVersion(t *testing.T) {
	everyCollection(t, func(t *testing.T, c *model.Collection) {
		for _, problem := range validateBundle(t, c, mustCSV(t, c, testCSVOptions(c.Group(false)))) {
			// OperatorHub.io wants an address of each maintainer. Authors without one are better than nobody.
			if strings.Contains(problem.Detail, "should contain both name and email") {
				continue
			}
			if problem.Level == oferrors.LevelError || !strings.Contains(problem.Detail, "minKubeVersion is not informed") {
				t.Error(problem)
			}
		}
	})
}

func TestValidatorsFindWhatIsWrong(t *testing.T) {
	c := loadCollection(t, "everything")
	tests := map[string]struct {
		spoil func(*operatorsv1alpha1.ClusterServiceVersion)
		want  string
	}{
		"icon": {func(csv *operatorsv1alpha1.ClusterServiceVersion) { csv.Spec.Icon[0].MediaType = "image/webp" }, "valid mediatype"},
		"example of a kind that is not owned": {func(csv *operatorsv1alpha1.ClusterServiceVersion) {
			csv.Annotations[annotationExamples] = `[{"apiVersion":"a/v1","kind":"B"}]`
		}, "example must have a provided API"},
		"category": {func(csv *operatorsv1alpha1.ClusterServiceVersion) { csv.Annotations["categories"] = "Mainframe" }, "standard categories"},
		"link":     {func(csv *operatorsv1alpha1.ClusterServiceVersion) { csv.Spec.Links[0].URL = "no address" }, "url no address is invalid"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			csv := mustCSV(t, c, testCSVOptions(c.Group(false)))
			tt.spoil(csv)
			problems := validateBundle(t, c, csv)
			if !slices.ContainsFunc(problems, func(e oferrors.Error) bool { return strings.Contains(e.Error(), tt.want) }) {
				t.Errorf("nothing says %q: %v", tt.want, problems)
			}
		})
	}
}

func validateBundle(t *testing.T, c *model.Collection, csv *operatorsv1alpha1.ClusterServiceVersion) []oferrors.Error {
	t.Helper()
	owned, err := CRDs(c, c.Group(false))
	if err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(csv)
	if err != nil {
		t.Fatal(err)
	}
	bundle := &manifests.Bundle{
		Name: csv.Name, CSV: csv, Package: PackageName(c), Channels: []string{"stable"}, DefaultChannel: "stable", V1CRDs: owned,
		Size: int64(len(content)), CompressedSize: int64(len(content)),
	}
	validators := ofvalidation.DefaultBundleValidators.WithValidators(
		ofvalidation.GoodPracticesValidator, ofvalidation.OperatorHubV2Validator, ofvalidation.StandardCapabilitiesValidator,
		ofvalidation.StandardCategoriesValidator, ofvalidation.AlphaDeprecatedAPIsValidator,
	)
	var problems []oferrors.Error
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		problems = append(append(problems, result.Errors...), result.Warnings...)
	}
	return problems
}

// Tools find the operator's objects by its labels, and OLM installs it only where the manager can run.
func TestClusterServiceVersionSelectsItsObjects(t *testing.T) {
	c := plainCollection(func(*model.Collection) {})
	spec := mustCSV(t, c, testCSVOptions(model.Group)).Spec
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	pods := spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Labels
	if !selector.Matches(labels.Set(pods)) || !selector.Matches(labels.Set(spec.Labels)) || selector.Matches(labels.Set{LabelDomain: "other", LabelName: c.Name, LabelManagedBy: ManagedBy}) {
		t.Errorf("the selector %s does not select just what has the labels %v", selector, pods)
	}
	if spec.MinKubeVersion != MinKubeVersion {
		t.Errorf("minKubeVersion is %q", spec.MinKubeVersion)
	}
}

// It is valid for the schema of its kind, and so are its labels, annotations and name.
func TestAPIServerAcceptsTheClusterServiceVersion(t *testing.T) {
	everyCollection(t, func(t *testing.T, c *model.Collection) {
		csv := mustCSV(t, c, testCSVOptions(c.Group(true)))
		for _, problem := range schemaProblems(t, crds.ClusterServiceVersion(), 0, csv) {
			t.Error(problem)
		}
		for _, problem := range validation.ValidateObjectMeta(&csv.ObjectMeta, false, validation.NameIsDNSSubdomain, fieldpath.NewPath("metadata")) {
			t.Error(problem)
		}
	})
}

// A form starts with an example. It is valid but for booleans that the user must choose, and has no empty values that a console would submit.
func TestExamplesFitTheSchemaAndHoldNothingEmpty(t *testing.T) {
	everyCollection(t, func(t *testing.T, c *model.Collection) {
		owned, err := CRDs(c, c.Group(false))
		if err != nil {
			t.Fatal(err)
		}
		examples := csvExamples(t, mustCSV(t, c, testCSVOptions(c.Group(false))))
		if len(examples) != len(owned) {
			t.Fatalf("%d examples for %d kinds", len(examples), len(owned))
		}
		for i, example := range examples {
			if example["kind"] != owned[i].Spec.Names.Kind || example["metadata"].(map[string]any)["name"] == "" {
				t.Errorf("example %d is of %v %v", i, example["kind"], example["metadata"])
			}
			fields := owned[i].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
			for _, problem := range schemaProblems(t, owned[i], 0, example) {
				if field := strings.TrimPrefix(problem.Field, "spec."); problem.Type == fieldpath.ErrorTypeRequired && fields[field].Type == "boolean" {
					continue // for the user to choose
				}
				t.Errorf("%s: %v", example["kind"], problem)
			}
			if holdsEmpty(example) {
				t.Errorf("%s: holds an empty value: %v", example["kind"], example)
			}
		}
	})
}

func csvExamples(t *testing.T, csv *operatorsv1alpha1.ClusterServiceVersion) []map[string]any {
	t.Helper()
	var examples []map[string]any
	if err := json.Unmarshal([]byte(csv.Annotations[annotationExamples]), &examples); err != nil {
		t.Fatal(err)
	}
	return examples
}

// schemaProblems returns the validation errors of an object in a version of a CRD, with defaults applied.
func schemaProblems(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition, version int, object any) fieldpath.ErrorList {
	t.Helper()
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(crd.Spec.Versions[version].Schema, internal, nil); err != nil {
		t.Fatal(err)
	}
	structural, err := schema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := crvalidation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	content, isContent := object.(map[string]any)
	if !isContent {
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
			t.Fatal(err)
		}
	}
	content = runtime.DeepCopyJSON(content)
	defaulting.Default(content, structural)
	return crvalidation.ValidateCustomResource(nil, content, validator)
}

// Specification: Resource Variables, required MUST: is set where users must give a value
func TestFormExample(t *testing.T) {
	member := func(name string, required bool, def any) model.Var {
		return model.Var{Name: name, Type: model.String, Required: required, Default: def}
	}
	object := func(fields ...model.Var) model.Var {
		return model.Var{Name: "o", Type: model.Object, Fields: fields}
	}
	required := func(v model.Var) model.Var { v.Required = true; return v }
	array := func(v model.Var) model.Var { v.Array = true; return v }
	tests := map[string]struct {
		v    model.Var
		want any
	}{
		"optional":                               {member("v", false, nil), nil},
		"optional with a default":                {member("v", false, "x"), "x"},
		"required":                               {member("v", true, nil), "example"},
		"empty list":                             {array(member("v", true, []any{})), nil},
		"list with an empty text":                {array(member("v", true, []any{"a", ""})), nil},
		"optional boolean":                       {model.Var{Name: "v", Type: model.Boolean}, nil},
		"required boolean":                       {required(model.Var{Name: "v", Type: model.Boolean}), nil},
		"required boolean with a default":        {required(model.Var{Name: "v", Type: model.Boolean, Default: true}), true},
		"object with a required boolean":         {object(member("a", false, "x"), required(model.Var{Name: "b", Type: model.Boolean})), nil},
		"required list of objects with booleans": {required(array(object(required(model.Var{Name: "b", Type: model.Boolean}), member("a", false, nil)))), []any{map[string]any{"a": "example"}}},
		"required list of booleans in objects":   {required(array(object(required(model.Var{Name: "b", Type: model.Boolean})))), nil},
		"boolean that is off":                    {model.Var{Name: "v", Type: model.Boolean, Default: false}, false},
		"zero":                                   {model.Var{Name: "v", Type: model.Integer, Default: int64(0)}, int64(0)},
		"object with a default in it":            {object(member("a", false, "x"), member("b", false, nil)), map[string]any{"a": "x"}},
		"object with nothing in it":              {object(member("a", false, nil)), nil},
		"object that the user has to complete":   {object(member("a", false, "x"), member("b", true, nil)), nil},
		"required object":                        {required(object(member("a", false, "x"), member("b", true, nil))), map[string]any{"a": "x", "b": "example"}},
		"required object with nothing in it":     {required(object(member("a", false, nil))), nil},
		"default of an object with an empty one": {model.Var{Name: "o", Type: model.Object, Default: map[string]any{"a": ""}}, nil},
		"optional list of objects":               {array(object(member("a", true, nil))), nil},
		"required list of objects":               {required(array(object(member("a", true, nil), member("b", false, "x")))), []any{map[string]any{"a": "example", "b": "x"}}},
		"required list of objects without needs": {required(array(object(member("a", false, nil)))), []any{map[string]any{"a": "example"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.v.Name = "v"
			want := map[string]any{}
			if tt.want != nil {
				want["v"] = tt.want
			}
			if diff := cmp.Diff(want, formFields([]model.Var{tt.v})); diff != "" {
				t.Errorf("form begins with (-want +got):\n%s", diff)
			}
		})
	}
}

func plainCollection(change func(*model.Collection)) *model.Collection {
	c := &model.Collection{
		Domain: "acme", Name: "things", Version: semver.MustParse("1.2.0"), DisplayName: "Things",
		Resources: []model.Resource{{Kind: "Thing", DisplayName: "Thing"}},
		Galaxy:    model.Galaxy{Namespace: "acme", Name: "things", Version: "1.2.0"},
	}
	change(c)
	return c
}

func TestIcon(t *testing.T) {
	const png = "image/png"
	large := strings.Repeat("A", base64.StdEncoding.EncodedLen(maxIcon)+4)
	tests := map[string]struct {
		icons     []model.Icon
		mediaType string
		data      string
	}{
		"none":                  {nil, "image/svg+xml", ""},
		"png":                   {[]model.Icon{{Base64Data: "AAAA", MediaType: png}}, png, "AAAA"},
		"the first of two":      {[]model.Icon{{Base64Data: "AAAA", MediaType: png}, {Base64Data: "BBBB", MediaType: png}}, png, "AAAA"},
		"one that is not shown": {[]model.Icon{{Base64Data: "AAAA", MediaType: "image/webp"}, {Base64Data: "BBBB", MediaType: "image/gif"}}, "image/gif", "BBBB"},
		"none that is shown":    {[]model.Icon{{Base64Data: "AAAA", MediaType: "image/bmp"}}, "image/svg+xml", ""},
		"too large":             {[]model.Icon{{Base64Data: large, MediaType: png}}, "image/svg+xml", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.data == "" {
				tt.data = base64.StdEncoding.EncodeToString(defaultIcon)
			}
			want := []operatorsv1alpha1.Icon{{Data: tt.data, MediaType: tt.mediaType}}
			got := mustCSV(t, plainCollection(func(c *model.Collection) { c.Icons = tt.icons }), testCSVOptions(model.Group)).Spec.Icon
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("icon (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLine(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"as it is":           {"IBM® z/OS", "IBM® z/OS"},
		"white space":        {" a \t\n b\r\n", "a b"},
		"control characters": {"a\x00b\x1b[31mc\u0085d", "abc d"},
		"direction":          {"a\u202eb\u2066c\u200b", "abc"},
		"not UTF-8":          {"a\xffb", "a?b"},
		"markdown and HTML":  {"<b>a</b> **b** `c`", "<b>a</b> **b** `c`"},
		"as long as allowed": {strings.Repeat("ä", 20), strings.Repeat("ä", 20)},
		"too long":           {strings.Repeat("ä", 21), strings.Repeat("ä", 19) + "…"},
		"too long at a gap":  {strings.Repeat("b", 18) + " ccc", strings.Repeat("b", 18) + "…"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := line(tt.in, 20); got != tt.want {
				t.Errorf("line(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
	if got, want := text("# a\r\n\n\tb\u202e\x07\u00a0c\n", 20), "# a\n\n\tb c"; got != want {
		t.Errorf("text is %q, want %q", got, want)
	}
}

// For any collection, the catalog content stays small, and single-line texts have one line.
func TestHostileTextsAreBounded(t *testing.T) {
	hostile := strings.Repeat("<script>alert(1)</script> \x00\u202e\n# **x** ", 1000)
	variable := model.Var{Name: "v", DisplayName: hostile, Description: hostile, Type: model.String, Required: true, Default: strings.Repeat(hostile, 10)}
	many := slices.Repeat([]string{hostile, "a" + hostile, "A <a@example.com>"}, 10)
	c := plainCollection(func(c *model.Collection) {
		c.DisplayName, c.Description, c.Provider = hostile, hostile, hostile
		c.Galaxy.Description, c.Galaxy.Authors, c.Galaxy.License, c.Galaxy.Tags = hostile, many, many, many
		c.Galaxy.Documentation, c.Galaxy.Homepage, c.Galaxy.Repository, c.Galaxy.Issues = hostile, "javascript:alert(1)", "https://u:p@example.com", "https://"+strings.Repeat("a", maxAddress)
		c.Resources = []model.Resource{{Kind: "Thing", DisplayName: hostile, Description: hostile, Vars: []model.Var{variable}}}
	})
	csv := mustCSV(t, c, testCSVOptions(model.Group))
	content, err := json.Marshal(csv)
	if err != nil {
		t.Fatal(err)
	}
	if len(content) > 200<<10 {
		t.Errorf("it has %d bytes", len(content))
	}
	if len(csv.Spec.Links) > 0 || csv.Annotations["repository"] != "" {
		t.Errorf("links that nobody should follow: %v, %v", csv.Spec.Links, csv.Annotations["repository"])
	}
	if len(csv.Spec.Keywords) > maxListed || len(csv.Spec.Maintainers) > maxListed {
		t.Errorf("%d keywords and %d maintainers", len(csv.Spec.Keywords), len(csv.Spec.Maintainers))
	}
	kind := csv.Spec.CustomResourceDefinitions.Owned[0]
	lines := append([]string{
		csv.Spec.DisplayName, csv.Spec.Provider.Name, csv.Annotations["description"], csv.Annotations["support"],
		kind.DisplayName, kind.SpecDescriptors[1].DisplayName,
	}, csv.Spec.Keywords...)
	for _, s := range lines {
		if utf8.RuneCountInString(s) > maxSummary || s == "" || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%d characters, or some that are not for a line: %.60q", utf8.RuneCountInString(s), s)
		}
	}
	for _, s := range []string{csv.Spec.Description, kind.Description, kind.SpecDescriptors[1].Description} {
		if strings.ContainsAny(s, "\x00\u202e") || s == "" {
			t.Errorf("holds control characters: %.60q", s)
		}
	}
	if examples := csvExamples(t, csv); len(examples) != 0 || csv.Annotations[annotationInitialization] != "" {
		t.Error("a default that is too large is in an example")
	}
}

// A text without printable characters is ignored.
func TestTextsThatShowNothing(t *testing.T) {
	const nothing = "\u202e \x00"
	csv := mustCSV(t, plainCollection(func(c *model.Collection) {
		c.DisplayName, c.Description, c.Provider = nothing, nothing, nothing
		c.Resources = []model.Resource{{Kind: "Thing", DisplayName: nothing, Description: nothing, Vars: []model.Var{
			{Name: "v", DisplayName: nothing, Type: model.String},
		}}}
	}), testCSVOptions(model.Group))
	kind := csv.Spec.CustomResourceDefinitions.Owned[0]
	got := []string{
		csv.Spec.DisplayName, csv.Spec.Description, csv.Spec.Provider.Name, csv.Annotations["description"],
		kind.DisplayName, kind.Description, kind.SpecDescriptors[1].DisplayName,
	}
	if diff := cmp.Diff([]string{"things", "things", "acme", "things", "Thing", "Thing", "v"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// OLM copies the annotations to the pods, where their size is limited.
func TestAnnotationsFitIntoAPod(t *testing.T) {
	c := plainCollection(func(c *model.Collection) {
		c.Domain, c.Name = strings.Repeat("d", 20), strings.Repeat("n", 20)
		vars := []model.Var{{Name: "v", Type: model.String, Default: strings.Repeat("x", 1000)}}
		for i := range 500 {
			kind := fmt.Sprintf("%s%03d", strings.Repeat("K", 56), i)
			c.Resources = append(c.Resources, model.Resource{Kind: kind, DisplayName: kind, Vars: vars, Hidden: true})
		}
	})
	csv := mustCSV(t, c, testCSVOptions(c.Group(true)))
	for _, problem := range validation.ValidateAnnotations(csv.Annotations, fieldpath.NewPath("annotations")) {
		t.Error(problem)
	}
	var hidden []string
	if err := json.Unmarshal([]byte(csv.Annotations[annotationInternal]), &hidden); err != nil || len(hidden) != 500 {
		t.Errorf("%d hidden kinds, %v", len(hidden), err)
	}
}

// An example that is too large does not affect those of other kinds.
func TestLargeExamplesAreLeftOut(t *testing.T) {
	large := model.Var{Name: "v", Type: model.String, Default: strings.Repeat("x", maxExamplesBytes/2)}
	c := plainCollection(func(c *model.Collection) {
		for _, kind := range []string{"A", "B", "C"} {
			c.Resources = append(c.Resources, model.Resource{Kind: kind, DisplayName: kind, Vars: []model.Var{large}})
		}
		c.Resources = append(c.Resources, model.Resource{Kind: "D", DisplayName: "D"})
	})
	csv := mustCSV(t, c, testCSVOptions(model.Group))
	var kinds []any
	for _, example := range csvExamples(t, csv) {
		kinds = append(kinds, example["kind"])
	}
	if diff := cmp.Diff([]any{"Thing", "A", "D"}, kinds); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
}

func TestGalaxyDataInTheClusterServiceVersion(t *testing.T) {
	c := plainCollection(func(c *model.Collection) {
		c.Created = time.Date(2025, 6, 1, 14, 30, 5, 0, time.FixedZone("CEST", 7200))
		c.Galaxy = model.Galaxy{
			Namespace: "acme", Authors: []string{"Acme, Inc. <info@example.com> (https://example.com)", "<jane@example.com>", "Jane", "Joe <not an address>", "Ann <ann@example.com"},
			License: []string{"MIT", "Apache-2.0", "MIT"}, Tags: []string{"Ansible", "cics", "Database", "db2", ""}, Description: "All things",
			Documentation: "https://example.com/docs", Homepage: "ftp://example.com", Repository: " http://example.com/a?b=c#d ",
		}
	})
	csv := mustCSV(t, c, testCSVOptions(model.Group))
	if diff := cmp.Diff([]operatorsv1alpha1.Maintainer{
		{Name: "Acme, Inc.", Email: "info@example.com"}, {Name: "jane@example.com", Email: "jane@example.com"},
	}, csv.Spec.Maintainers); diff != "" {
		t.Errorf("maintainers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]operatorsv1alpha1.AppLink{
		{Name: "Documentation", URL: "https://example.com/docs"}, {Name: "Repository", URL: "http://example.com/a?b=c#d"},
	}, csv.Spec.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	got := map[string]string{
		"keywords": strings.Join(csv.Spec.Keywords, "|"), "provider": csv.Spec.Provider.Name, "description": csv.Spec.Description,
	}
	for _, name := range []string{"categories", "createdAt", "description", "repository"} {
		got["annotation "+name] = csv.Annotations[name]
	}
	if diff := cmp.Diff(map[string]string{
		"keywords": "z/OS|Ansible|cics|Database|db2", "provider": "Acme, Inc.",
		"description":            "All things\n\nAuthors: Acme, Inc., Jane, Joe, Ann\n\nLicense: MIT, Apache-2.0",
		"annotation categories":  "Application Runtime, Database",
		"annotation createdAt":   "2025-06-01T12:30:05Z",
		"annotation description": "All things", "annotation repository": "http://example.com/a?b=c#d",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMaintainersWithoutAddresses(t *testing.T) {
	c := plainCollection(func(c *model.Collection) {
		c.Galaxy.Authors = []string{"Acme, Inc. (https://example.com)", "Jane <jane>", "", "jane", "Joe"}
	})
	want := []operatorsv1alpha1.Maintainer{{Name: "Acme, Inc. (https://example.com)"}, {Name: "Jane"}, {Name: "Joe"}}
	if diff := cmp.Diff(want, mustCSV(t, c, testCSVOptions(model.Group)).Spec.Maintainers); diff != "" {
		t.Errorf("maintainers (-want +got):\n%s", diff)
	}
}

func TestAuthorsDescribeTheirTile(t *testing.T) {
	c := plainCollection(func(c *model.Collection) {
		c.Galaxy.Tags = []string{"database"}
		c.Galaxy.Issues = "https://example.com/issues"
	})
	for name, tt := range map[string]struct {
		capabilities              string
		categories                []string
		wantLevel, wantCategories string
	}{
		"nothing said": {"", nil, "Basic Install", "Database"},
		"all said":     {"Full Lifecycle", []string{"Security", "Storage"}, "Full Lifecycle", "Security, Storage"},
	} {
		t.Run(name, func(t *testing.T) {
			c.Capabilities, c.Categories = tt.capabilities, tt.categories
			csv := mustCSV(t, c, testCSVOptions(model.Group))
			if csv.Annotations["capabilities"] != tt.wantLevel || csv.Annotations["categories"] != tt.wantCategories {
				t.Errorf("got %q and %q", csv.Annotations["capabilities"], csv.Annotations["categories"])
			}
			if diff := cmp.Diff([]operatorsv1alpha1.AppLink{{Name: "Issues", URL: "https://example.com/issues"}}, csv.Spec.Links); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSupport(t *testing.T) {
	for name, tt := range map[string]struct{ provider, support, want string }{
		"provider":         {"Acme", "", "Acme"},
		"somebody else":    {"Acme", "The z/OS team", "The z/OS team"},
		"nothing to see":   {"Acme", "\u200b", "Acme"},
		"on several lines": {"Acme", "The\nz/OS team", "The z/OS team"},
	} {
		t.Run(name, func(t *testing.T) {
			c := plainCollection(func(c *model.Collection) { c.Provider, c.Support = tt.provider, tt.support })
			if got := mustCSV(t, c, testCSVOptions(model.Group)).Annotations["support"]; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestMaturity(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.0": "stable", "0.9.0": "alpha", "1.0.0-alpha.1": "alpha", "1.0.0-rc.1": "beta", "1.0.0-BETA": "beta", "2.0.0+build": "stable",
	} {
		c := plainCollection(func(c *model.Collection) { c.Version = semver.MustParse(version) })
		csv := mustCSV(t, c, testCSVOptions(model.Group))
		if csv.Spec.Maturity != want || csv.Spec.Version.String() != version {
			t.Errorf("%s: maturity %s, version %s", version, csv.Spec.Maturity, csv.Spec.Version)
		}
	}
}

func TestDisconnectedIsToldTruthfully(t *testing.T) {
	needy := model.Dependencies{Python: []model.PythonRequirements{{File: "requirements.txt", Requirements: []string{"requests"}}}}
	tests := map[string]struct {
		image string
		needs model.Dependencies
		want  string
	}{
		"by digest":         {"registry.example/runtime@" + testDigest, model.Dependencies{}, "true"},
		"by tag":            {"registry.example/runtime:1", model.Dependencies{}, "false"},
		"with dependencies": {"registry.example/runtime@" + testDigest, needy, "false"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := testCSVOptions(model.Group)
			o.Runtime.Image = tt.image
			csv := mustCSV(t, plainCollection(func(c *model.Collection) { c.Dependencies = tt.needs }), o)
			if got := csv.Annotations[annotationFeature+"disconnected"]; got != tt.want {
				t.Errorf("disconnected is %s", got)
			}
		})
	}
}

func TestInitializationResource(t *testing.T) {
	needy := []model.Var{{Name: "v", Type: model.String, Required: true}}
	kind := func(name string, vars []model.Var, hidden bool) model.Resource {
		return model.Resource{Kind: name, DisplayName: name, Vars: vars, Hidden: hidden}
	}
	tests := map[string]struct {
		kinds []model.Resource
		want  string
	}{
		"one kind":                  {[]model.Resource{kind("A", needy, false)}, `"kind":"A"`},
		"one kind without needs":    {[]model.Resource{kind("A", nil, false)}, ""},
		"one kind that is shown":    {[]model.Resource{kind("A", nil, true), kind("B", needy, false)}, `"kind":"B"`},
		"two kinds":                 {[]model.Resource{kind("A", needy, false), kind("B", nil, false)}, ""},
		"one kind that is not seen": {[]model.Resource{kind("A", needy, true)}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			csv := mustCSV(t, plainCollection(func(c *model.Collection) { c.Resources = tt.kinds }), testCSVOptions(model.Group))
			got := csv.Annotations[annotationInitialization]
			if !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("initialization resource %q, want one with %q", got, tt.want)
			}
		})
	}
}

// Every collection that loads has a ClusterServiceVersion that is valid for the API server and the console.
func FuzzClusterServiceVersion(f *testing.F) {
	files, err := filepath.Glob("../model/testdata/*/operator-config.y*ml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	playbook := regexp.MustCompile(`(playbook|finalizer): [^,}\n]+`)
	for _, file := range append(files, "testdata/collections/everything/operator-config.yml") {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(playbook.ReplaceAll(content, []byte("$1: provision.yml")), "An author <author@example.com>", "https://example.com")
	}
	f.Fuzz(func(t *testing.T, config []byte, author, address string) {
		galaxy, err := json.Marshal(map[string]any{
			"namespace": "acme", "name": "demo", "version": "1.2.3", "authors": []string{author}, "tags": []string{author}, "homepage": address,
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := model.Load(fstest.MapFS{
			"operator-config.yml": {Data: config}, "galaxy.yml": {Data: galaxy}, "provision.yml": {Data: []byte("- hosts: all\n")},
		})
		if err != nil {
			t.Skip()
		}
		owned, err := CRDs(c, c.Group(true))
		if err != nil {
			t.Fatal(err)
		}
		csv := mustCSV(t, c, testCSVOptions(c.Group(true)))
		for _, problem := range append(
			validation.ValidateObjectMeta(&csv.ObjectMeta, false, validation.NameIsDNSSubdomain, fieldpath.NewPath("metadata")),
			schemaProblems(t, crds.ClusterServiceVersion(), 0, csv)...) {
			t.Error(problem)
		}
		csvExamples(t, csv)
		for i, kind := range csv.Spec.CustomResourceDefinitions.Owned {
			for _, problem := range consoleProblems(kind, owned[i], nil) {
				// Schemas have the author's titles, and descriptors their printable characters.
				if !strings.Contains(problem, "another title") && !strings.Contains(problem, "nothing serves") {
					t.Errorf("%s: %s", kind.Kind, problem)
				}
			}
		}
	})
}

// The pod equals that of an installation without OLM, except for differences between namespaces.
func TestBothWaysShareThePod(t *testing.T) {
	c := loadCollection(t, "everything")
	o := testCSVOptions(c.Group(false))
	direct := testOptions(o.Group)
	direct.Runtime.Image, direct.Architectures = o.Runtime.Image, o.Architectures
	direct.Dependencies.Credentials = map[string][]byte{KeyGalaxyToken: []byte("token")}
	objects, err := Installation(c, direct)
	if err != nil {
		t.Fatal(err)
	}
	strategy := mustCSV(t, c, o).Spec.InstallStrategy.StrategySpec
	got, want := strategy.DeploymentSpecs[0].Spec, find[*appsv1.Deployment](t, objects).Spec
	delete(want.Template.Annotations, RuntimeHashAnnotation)
	want.Template.Annotations[CatalogHashAnnotation] = got.Template.Annotations[CatalogHashAnnotation]
	want.ProgressDeadlineSeconds = got.ProgressDeadlineSeconds
	operator := &want.Template.Spec.Containers[0]
	operator.Env[0] = corev1.EnvVar{Name: "WATCH_NAMESPACE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['olm.targetNamespaces']"},
	}}
	operator.Env = slices.Insert(operator.Env, 1, corev1.EnvVar{Name: "MAX_CONCURRENT_RECONCILES", Value: "2"})
	operator.Args[slices.Index(operator.Args, "--max-concurrent-reconciles=2")] = "--max-concurrent-reconciles=$(MAX_CONCURRENT_RECONCILES)"
	optional := true
	for _, volume := range want.Template.Spec.Volumes {
		if volume.Name == dependencySecretMount {
			volume.Secret.Optional = &optional
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the Deployment differs (-direct +OLM):\n%s", diff)
	}
	if diff := cmp.Diff(find[*rbacv1.Role](t, objects).Rules, strategy.Permissions[0].Rules); diff != "" {
		t.Errorf("the permissions differ (-direct +OLM):\n%s", diff)
	}
	if diff := cmp.Diff(find[*rbacv1.ClusterRole](t, objects).Rules, strategy.ClusterPermissions[0].Rules); diff != "" {
		t.Errorf("the permissions in the cluster differ (-direct +OLM):\n%s", diff)
	}
}

// A namespace that sets nothing gets the configuration whose hash the ClusterServiceVersion has, and each setting another one.
func TestClusterServiceVersionHasTheHashOfTheDefaults(t *testing.T) {
	c := testCollection("1.0.0")
	c.Galaxy.RequiresAnsible = ">=2.15"
	settings := DefaultSettings()
	settings.ArtifactAuthorities = "one"
	options := func() InstallationOptions {
		return settings.Options("ns", model.Group, testDigest, "/artifacts/"+testDigest)
	}
	csv := mustCSV(t, c, ClusterServiceVersionOptions{InstallationOptions: options()})
	want := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Annotations[CatalogHashAnnotation]
	for name, test := range map[string]struct {
		change func(*InstallationOptions)
		same   bool
	}{
		"nothing":             {func(*InstallationOptions) {}, true},
		"another authority":   {func(o *InstallationOptions) { o.ArtifactAuthorities = "other" }, true},
		"its NetworkPolicy":   {func(o *InstallationOptions) { o.Runtime.NetworkPolicy = testPolicy() }, true},
		"another archive":     {func(o *InstallationOptions) { o.Digest = "sha256:other" }, false},
		"a period":            {func(o *InstallationOptions) { o.Runtime.ReconcilePeriod = &metav1.Duration{Duration: time.Hour} }, false},
		"a source":            {func(o *InstallationOptions) { o.Dependencies.GalaxyURL = "https://galaxy.example" }, false},
		"a node":              {func(o *InstallationOptions) { o.Runtime.NodeSelector = map[string]string{"zone": "a"} }, false},
		"a variable":          {func(o *InstallationOptions) { o.Runtime.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} }, false},
		"concurrent runs":     {func(o *InstallationOptions) { o.Runtime.MaxConcurrentReconciles = ptr.To[int32](3) }, false},
		"a reserved variable": {func(o *InstallationOptions) { o.Runtime.Env = []corev1.EnvVar{{Name: "POD_NAME", Value: "b"}} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			test.change(&o)
			config := find[*operatorsv1alpha1.Subscription](t, subscribe(t, c, o)).Spec.Config
			if got := config.Annotations[RuntimeHashAnnotation]; (got == want) != test.same {
				t.Errorf("hash %s, of the defaults %s", got, want)
			}
		})
	}
}

func TestClusterServiceVersionWithoutArchitecturesRunsEverywhere(t *testing.T) {
	o := testCSVOptions(model.Group)
	o.Architectures = nil
	csv := mustCSV(t, plainCollection(func(*model.Collection) {}), o)
	var got []string
	for _, label := range slices.Sorted(maps.Keys(csv.Labels)) {
		if architecture, ok := strings.CutPrefix(label, labelArchitecture); ok {
			got = append(got, architecture)
		}
	}
	if diff := cmp.Diff([]string{"amd64", "arm64", "ppc64le", "s390x"}, got); diff != "" {
		t.Errorf("architectures (-want +got):\n%s", diff)
	}
	if csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Affinity != nil {
		t.Error("the pod asks for nodes")
	}
}

func TestClusterServiceVersionNeedsAnImage(t *testing.T) {
	o := testCSVOptions(model.Group)
	o.Runtime.Image = ""
	if _, err := ClusterServiceVersion(plainCollection(func(*model.Collection) {}), o); err == nil || !strings.Contains(err.Error(), "image") {
		t.Errorf("got error %v", err)
	}
}
