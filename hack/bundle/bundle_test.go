package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/config"
)

var imageDigest = "@sha256:" + strings.Repeat("0", 64)

func testOptions() options {
	return options{
		version:       "0.1.0",
		managerImage:  "registry.example.com/collection-operator/manager" + imageDigest,
		runtimeImage:  "registry.example.com/collection-operator/runtime" + imageDigest,
		architectures: []string{"amd64", "s390x"},
		createdAt:     "2026-01-01T00:00:00Z",
		icon:          []byte("<svg/>"),
	}
}

var kustomized = sync.OnceValues(func() ([]byte, error) {
	// Go caches a test's result unless a file has changed that the test itself has read.
	err := fs.WalkDir(os.DirFS("../../config"), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			_, err = os.ReadFile(filepath.Join("../../config", path))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return kustomize("../../config/manifests")
})

// kustomize returns what a folder builds, or nil if there is no kubectl.
func kustomize(folder string) ([]byte, error) {
	for _, candidate := range []string{os.Getenv("KUBECTL"), "../../.devcluster/bin/kubectl", "kubectl"} {
		if kubectl, err := exec.LookPath(candidate); err == nil {
			return exec.Command(kubectl, "kustomize", folder).Output()
		}
	}
	return nil, nil
}

// requireKubectl fails, or skips the test, if kustomize returned nothing.
func requireKubectl(t *testing.T, text []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if text == nil {
		const lacking = "NOT TESTED: there is no kubectl"
		if os.Getenv("CI") == "true" {
			t.Fatal(lacking)
		}
		t.Skip(lacking)
	}
}

// Whoever has installed the manager with OLM, and into any namespace, applies the component alone.
func TestMonitoringAlone(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	config := t.TempDir()
	if err := os.CopyFS(filepath.Join(config, "components", "monitoring"), os.DirFS("../../config/components/monitoring")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(config, "monitoring"), 0o755); err != nil {
		t.Fatal(err)
	}
	changed := strings.ReplaceAll(example, "namespace: collection-operator-system", "namespace: other")
	if err := os.WriteFile(filepath.Join(config, "monitoring", "kustomization.yaml"), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := kustomize(filepath.Join(config, "monitoring"))
	requireKubectl(t, text, err)
	objects, err := decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
		if namespace := object.GetNamespace(); namespace != "other" && object.GetKind() != "ClusterRoleBinding" {
			t.Errorf("%s is in namespace %q", name(object), namespace)
		}
	}
	slices.Sort(kinds)
	if want := []string{"ClusterRoleBinding", "NetworkPolicy", "PrometheusRule", "Secret", "ServiceAccount", "ServiceMonitor"}; !slices.Equal(kinds, want) {
		t.Errorf("got %v, want %v", kinds, want)
	}
	if !strings.Contains(string(text), "serverName: collection-operator-artifacts.other.svc\n") {
		t.Error("the ServiceMonitor expects the certificate of another namespace")
	}
}

// sources returns new copies of the objects that kustomize builds.
func sources(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	text, err := kustomized()
	requireKubectl(t, text, err)
	objects, err := decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// written returns the folder of a bundle with the given options.
func written(t *testing.T, o options) string {
	t.Helper()
	b, err := assemble(sources(t), o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := b.write(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func load(t *testing.T, dir string) *manifests.Bundle {
	t.Helper()
	loaded, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func TestBundleIsValid(t *testing.T) {
	warnings, err := validate(written(t, testOptions()))
	if err != nil {
		t.Error(err)
	}
	known := []string{
		// The rule has no version. It applies to events.k8s.io/v1.
		`removed in v1.25. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-25. Migrate the API(s) for events: (["ClusterServiceVersion.Spec.InstallStrategy.StrategySpec.ClusterPermissions[`,
		// The manager installs operators.
		"CSV contains permissions to create CRD",
	}
	if len(warnings) != len(known) {
		t.Errorf("want %d warnings, got %q", len(known), warnings)
	}
	for i := range min(len(known), len(warnings)) {
		if !strings.Contains(warnings[i], known[i]) {
			t.Errorf("unknown warning: %s", warnings[i])
		}
	}
}

func TestSameManifestsGiveTheSameBundle(t *testing.T) {
	one, other := written(t, testOptions()), written(t, testOptions())
	if out, err := exec.Command("diff", "-r", filepath.Dir(one), filepath.Dir(other)).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestImageOfTheBundleSaysWhatItsFolderSays(t *testing.T) {
	dir := written(t, testOptions())
	text, err := os.ReadFile(dir + ".Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	annotations := struct{ Annotations map[string]string }{}
	readYAML(t, filepath.Join(dir, "metadata/annotations.yaml"), &annotations)
	labels := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if label, isLabel := strings.CutPrefix(strings.TrimSpace(line), "LABEL "); isLabel {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = value
		}
	}
	if diff := cmp.Diff(annotations.Annotations, labels); diff != "" || len(labels) == 0 {
		t.Error(diff)
	}
}

func decodeFile(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

func TestOperatorGetsThePermissionsOfTheManager(t *testing.T) {
	csv := load(t, written(t, testOptions())).CSV
	strategy := csv.Spec.InstallStrategy.StrategySpec
	var want []operatorsv1alpha1.StrategyDeploymentPermissions
	for _, row := range []struct{ path, account string }{
		{"rbac/role.yaml", "collection-operator-controller-manager"},
		{"components/olm/role.yaml", "collection-operator-controller-manager"},
		{"manifests/policies/role.yaml", "collection-operator-policies"},
	} {
		role := &rbacv1.ClusterRole{}
		if err := convert(decodeFile(t, "../../config/"+row.path)[0], role); err != nil {
			t.Fatal(err)
		}
		want = append(want, operatorsv1alpha1.StrategyDeploymentPermissions{ServiceAccountName: row.account, Rules: role.Rules})
	}
	if diff := cmp.Diff(want, strategy.ClusterPermissions); diff != "" {
		t.Error(diff)
	}
	if strategy.Permissions != nil {
		t.Errorf("OLM would give in all namespaces: %v", strategy.Permissions)
	}
}

func TestManagerIsOneDeployment(t *testing.T) {
	strategy := load(t, written(t, testOptions())).CSV.Spec.InstallStrategy.StrategySpec
	if len(strategy.DeploymentSpecs) != 2 || strategy.DeploymentSpecs[1].Name != "collection-operator-policies" {
		t.Fatalf("there are %d Deployments", len(strategy.DeploymentSpecs))
	}
	manager := strategy.DeploymentSpecs[0]
	if manager.Name != "collection-operator-controller-manager" || *manager.Spec.Replicas != 1 || manager.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("got %d of %s with the strategy %s", *manager.Spec.Replicas, manager.Name, manager.Spec.Strategy.Type)
	}
	selector := map[string]string{"component": "manager"} // OLM cannot change that of an installed Deployment.
	if diff := cmp.Diff(selector, manager.Spec.Selector.MatchLabels); diff != "" {
		t.Error(diff)
	}
	want := map[string]string{"component": "manager", "app.kubernetes.io/name": "collection-operator"}
	if diff := cmp.Diff(want, manager.Spec.Template.Labels); diff != "" {
		t.Error(diff)
	}
}

func TestRolesOfOthersLieBesideTheClusterServiceVersion(t *testing.T) {
	want := map[string]string{}
	for _, path := range []string{"rbac/grants.yaml", "rbac/metrics_reader.yaml", "rbac/user_roles.yaml", "components/administrators-only/policy.yaml"} {
		for _, object := range decodeFile(t, "../../config/"+path) {
			if object.GroupVersionKind().Group == rbacv1.GroupName {
				want[name(object)] = toJSON(t, object)
			}
		}
	}
	bundle := load(t, written(t, testOptions()))
	got := map[string]string{}
	for _, object := range bundle.Objects {
		if object.GroupVersionKind().Group == rbacv1.GroupName {
			got[name(object)] = toJSON(t, object)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The subject of a ClusterRoleBinding is fixed.
	suggested := bundle.CSV.Annotations["operatorframework.io/suggested-namespace"]
	if binding := got["ClusterRoleBinding collection-operator-grants"]; !strings.Contains(binding, `"namespace":"`+suggested+`"`) {
		t.Errorf("the suggested namespace is %s, but grants go to %s", suggested, binding)
	}
}

// The namespace that the console creates is that of the other ways to install the manager.
func TestSuggestedNamespace(t *testing.T) {
	var want, got map[string]any
	readYAML(t, "../../config/manager/namespace.yaml", &want)
	template := load(t, written(t, testOptions())).CSV.Annotations["operatorframework.io/suggested-namespace-template"]
	if err := json.Unmarshal([]byte(template), &got); err != nil {
		t.Fatalf("%s: %v", template, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func toJSON(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryImageIsNamedForMirroring(t *testing.T) {
	o := testOptions()
	csv := load(t, written(t, o)).CSV
	want := []operatorsv1alpha1.RelatedImage{{Name: "manager", Image: o.managerImage}, {Name: "runtime", Image: o.runtimeImage}}
	if diff := cmp.Diff(want, csv.Spec.RelatedImages); diff != "" {
		t.Error(diff)
	}
	for _, d := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if image := d.Spec.Template.Spec.Containers[0].Image; image != o.managerImage {
			t.Errorf("the image of %s is %s", d.Name, image)
		}
	}
	container := csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	if env["RELATED_IMAGE_RUNTIME"] != o.runtimeImage || env["RUNTIME_ARCHITECTURES"] != "amd64,s390x" {
		t.Errorf("the manager's variables are %v", env)
	}
	if got := env["COLLECTION_OPERATOR_RUNTIME_IMAGE"]; got != "$(RELATED_IMAGE_RUNTIME)" {
		t.Errorf("the image of operators is %q", got)
	}
	if got := csv.Annotations["features.operators.openshift.io/disconnected"]; got != "true" {
		t.Errorf("disconnected is %q", got)
	}
}

// Subscriptions can change variables, but no arguments.
func TestEveryFlagCanBeSetInASubscription(t *testing.T) {
	container := load(t, written(t, testOptions())).CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
	if len(container.Args) != 0 {
		t.Errorf("the manager has arguments: %v", container.Args)
	}
	want := []string{"COLLECTION_OPERATOR_ARTIFACT_URL", "COLLECTION_OPERATOR_CATALOG_ADDRESS", "COLLECTION_OPERATOR_CATALOG_BIND_ADDRESS"}
	for _, name := range want {
		if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == name && e.Value != "" }) {
			t.Errorf("the manager has no variable %s", name)
		}
	}
	if len(container.EnvFrom) != 0 {
		t.Errorf("the manager reads its settings itself: %v", container.EnvFrom)
	}
}

// A bundle cannot contain policies. The Deployment that applies them may change these and no others.
func TestEveryPolicyIsApplied(t *testing.T) {
	policies, err := config.Policies()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, policy := range policies {
		want = append(want, policy.GetName())
	}
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	for _, permission := range load(t, written(t, testOptions())).CSV.Spec.InstallStrategy.StrategySpec.ClusterPermissions {
		if permission.ServiceAccountName == "collection-operator-policies" {
			got = permission.Rules[0].ResourceNames
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 8 {
		t.Error(diff)
	}
}

func TestTileIsForTheArchitecturesOfTheImages(t *testing.T) {
	csv := load(t, written(t, testOptions())).CSV
	want := map[string]string{
		"operatorframework.io/os.linux": "supported", "operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.s390x": "supported",
	}
	if diff := cmp.Diff(want, csv.Labels); diff != "" {
		t.Error(diff)
	}
}

func TestImagesWithoutDigest(t *testing.T) {
	o := testOptions()
	o.runtimeImage = "registry.example.com/runtime:v0.1.0"
	if _, err := assemble(sources(t), o); err == nil || !strings.Contains(err.Error(), o.runtimeImage+" has no digest") {
		t.Errorf("got %v", err)
	}
	o.allowTags = true
	if got := load(t, written(t, o)).CSV.Annotations["features.operators.openshift.io/disconnected"]; got != "false" {
		t.Errorf("disconnected is %q", got)
	}
}

func TestExamplesAreTheSamples(t *testing.T) {
	csv := load(t, written(t, testOptions())).CSV
	examples := []*unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(csv.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, example := range examples {
		got[example.GetKind()] = toJSON(t, example)
	}
	want := map[string]string{}
	for _, path := range []string{"operatorcollection.yaml", "suboperatorconfig.yaml", "zosendpoint.yaml", "zoscloudbroker.yaml"} {
		sample := &unstructured.Unstructured{}
		readYAML(t, "../../config/samples/"+path, sample)
		want[sample.GetKind()] = toJSON(t, sample)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(examples) != len(want) {
		t.Errorf("%d examples: %s", len(examples), diff)
	}
}

func TestUnsupportedManifests(t *testing.T) {
	object := func(text string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for want, text := range map[string]string{
		"PersistentVolumeClaim x: a bundle cannot contain this kind":     "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: x}}",
		"Role x: for an operator that watches all namespaces":            "{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: x}}",
		"Service x is in namespace other":                                "{apiVersion: v1, kind: Service, metadata: {name: x, namespace: other}}",
		"ClusterRoleBinding x: there is no ClusterRole other":            "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, roleRef: {kind: ClusterRole, name: other, apiGroup: rbac.authorization.k8s.io}}",
		`ClusterRoleBinding x: strict decoding error: unknown field "z"`: "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: x}, z: 1}",
	} {
		if _, err := assemble(append(sources(t), object(text)), testOptions()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

func TestTheManagerMustBeADeployment(t *testing.T) {
	objects := slices.DeleteFunc(sources(t), func(o *unstructured.Unstructured) bool {
		return o.GetName() == managerName && o.GetKind() == "Deployment"
	})
	if _, err := assemble(objects, testOptions()); err == nil || !strings.Contains(err.Error(), "there is no Deployment "+managerName) {
		t.Errorf("got %v", err)
	}
}

func TestVersionMustBeSemantic(t *testing.T) {
	o := testOptions()
	o.version = "v1"
	if _, err := assemble(sources(t), o); err == nil || !strings.Contains(err.Error(), `version "v1" is not semantic`) {
		t.Errorf("got %v", err)
	}
}

// served returns what OLM reads from the catalog.
func served(t *testing.T, image string) *api.Bundle {
	t.Helper()
	text, err := catalogOf(load(t, written(t, testOptions())), image)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := declcfg.LoadReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := declcfg.ConvertToModel(*catalog)
	if err != nil {
		t.Fatal(err)
	}
	head, err := packages[packageName].DefaultChannel.Head()
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := api.ConvertModelBundleToAPIBundle(*head)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func TestCatalogNamesTheImageOfTheBundle(t *testing.T) {
	image := "registry.example.com/collection-operator/bundle" + imageDigest
	bundle := served(t, image)
	if bundle.BundlePath != image || bundle.CsvName != "collection-operator.v0.1.0" || bundle.ChannelName != channel || bundle.SkipRange != "<0.1.0" {
		t.Errorf("got %v", bundle)
	}
	if len(bundle.ProvidedApis) != 4 || bundle.CsvJson == "" {
		t.Errorf("it provides %v, and is shown as %s", bundle.ProvidedApis, bundle.CsvJson)
	}
}

func TestCatalogWithoutImageHoldsTheBundle(t *testing.T) {
	bundle := served(t, "")
	var got []string
	for _, text := range bundle.Object {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON([]byte(text)); err != nil {
			t.Fatal(err)
		}
		got = append(got, name(object))
	}
	var want []string
	for _, object := range load(t, written(t, testOptions())).Objects {
		want = append(want, name(object))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || bundle.BundlePath != "" {
		t.Error(bundle.BundlePath, diff)
	}
}

func TestMaintainersAreThoseWhoPublish(t *testing.T) {
	o := testOptions()
	if csv := load(t, written(t, o)).CSV; csv.Spec.Maintainers != nil {
		t.Errorf("nobody is named: %v", csv.Spec.Maintainers)
	}
	o.maintainers = []string{"Jane Doe <jane@zos.dev>"}
	want := []operatorsv1alpha1.Maintainer{{Name: "Jane Doe", Email: "jane@zos.dev"}}
	if diff := cmp.Diff(want, load(t, written(t, o)).CSV.Spec.Maintainers); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"Jane", "jane@zos.dev", "Jane <jane@zos.example>", "Jane <jane@example.com>", "Jane <jane@LOCALHOST>"} {
		o.maintainers = []string{text}
		if _, err := assemble(sources(t), o); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// A tile is how users find whom to ask.
func TestLinksAndIconAreNoPlaceholders(t *testing.T) {
	o := testOptions()
	var err error
	if o.icon, err = os.ReadFile("../../config/manifests/icon.svg"); err != nil {
		t.Fatal(err)
	}
	csv := load(t, written(t, o)).CSV
	home := "https://" + strings.TrimSuffix(reflect.TypeFor[v2beta2.ZosEndpoint]().PkgPath(), "/api/v2beta2")
	links := append(slices.Clone(csv.Spec.Links), csv.Spec.Provider, operatorsv1alpha1.AppLink{Name: "repository", URL: csv.Annotations["repository"]})
	var names []string
	for _, link := range links {
		names = append(names, link.Name)
		if link.URL != home && !strings.HasPrefix(link.URL, home+"/") {
			t.Errorf("%s is %q, and not below %s, where the source is", link.Name, link.URL, home)
		}
	}
	for _, name := range []string{"Documentation", "Source", "Issues"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no link %s", name)
		}
	}
	icon := struct {
		XMLName xml.Name
		Content string `xml:",innerxml"`
	}{}
	data, err := base64.StdEncoding.DecodeString(csv.Spec.Icon[0].Data)
	if err != nil || xml.Unmarshal(data, &icon) != nil || icon.XMLName.Local != "svg" || !strings.Contains(icon.Content, "<path") {
		t.Errorf("the icon shows nothing: %v\n%s", err, data)
	}
}
