package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
)

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestValues(t *testing.T) {
	const (
		set       = "StatefulSet/elsewhere/collection-operator-controller-manager"
		config    = "ConfigMap/elsewhere/collection-operator-settings"
		pod       = "spec/template/spec/"
		container = pod + "containers/0/"
	)
	tests := []struct {
		name, values, object, path string
		want                       any
	}{
		{"a tag", `image: {repository: r.example.com/m, tag: v2}`, set, container + "image", "r.example.com/m:v2"},
		{"the tag of the version", `image: {repository: r.example.com/m, tag: ""}`, set, container + "image", "r.example.com/m:v0.1.0"},
		{"a digest", `image: {repository: r.example.com/m, digest: "` + digest + `"}`, set, container + "image", "r.example.com/m@" + digest},
		{"the runtime by digest", `runtime: {image: {digest: "` + digest + `"}}`, set, slashed(runtimeImagePath), "collection-operator/runtime@" + digest},
		{"architectures", `runtime: {architectures: [amd64, s390x]}`, set, slashed(runtimeArchitecturesPath), "amd64,s390x"},
		{"a pull policy", `image: {pullPolicy: Always}`, set, container + "imagePullPolicy", "Always"},
		{"pull secrets", `imagePullSecrets: [{name: registry}]`, set, pod + "imagePullSecrets/0/name", "registry"},
		{"three managers", `replicas: 3`, set, "spec/replicas", 3.0},
		{"resources", `resources: {limits: {memory: 2Gi}}`, set, container + "resources/limits/memory", "2Gi"},
		{"a node selector", `nodeSelector: {zos: near}`, set, pod + "nodeSelector/zos", "near"},
		{"a toleration", `tolerations: [{key: zos, operator: Exists}]`, set, pod + "tolerations/0/key", "zos"},
		{"a priority", `priorityClassName: high`, set, pod + "priorityClassName", "high"},
		{"a group", `persistence: {fsGroup: 1000680000}`, set, pod + "securityContext/fsGroup", 1000680000.0},
		{"a proxy", `env: [{name: HTTPS_PROXY, value: "http://proxy:3128"}]`, set, container + "env/HTTPS_PROXY/value", "http://proxy:3128"},
		{"an annotation", `podAnnotations: {a: b}`, set, "spec/template/metadata/annotations/a", "b"},
		{"the size of a volume", `persistence: {size: 20Gi}`, set, "spec/volumeClaimTemplates/0/spec/resources/requests/storage", "20Gi"},
		{"the class of a volume", `persistence: {storageClassName: fast}`, set, "spec/volumeClaimTemplates/0/spec/storageClassName", "fast"},
		{"the size without a volume", `persistence: {enabled: false, size: 2Gi}`, set, pod + "volumes/0/emptyDir/sizeLimit", "2Gi"},
		{"a text as setting", `settings: {fetch-timeout: 5m}`, config, "data/fetch-timeout", "5m"},
		{"a number as setting", `settings: {fetch-max-bytes: 536870912}`, config, "data/fetch-max-bytes", "536870912"},
		{"a switch as setting", `settings: {allow-exec-uploads: false}`, config, "data/allow-exec-uploads", "false"},
		{"a setting of an earlier version", `settings: {max-collections: 1000, replication-timeout: 5m}`, config, "data/max-collections", "1000"},
		{"a list as setting", `settings: {forbidden-networks: [10.96.0.0/16, 10.0.0.0/8]}`, config, "data/forbidden-networks", "10.96.0.0/16,10.0.0.0/8"},
		{"defaults of operators", `settings: {runtime-defaults: {priorityClassName: mainframe}}`, config, "data/runtime-defaults", `{"priorityClassName":"mainframe"}`},
		{"the namespace of Prometheus", `monitoring: {enabled: true, namespaces: [prometheus]}`, "NetworkPolicy/elsewhere/collection-operator-monitoring",
			"spec/ingress/0/from/0/namespaceSelector/matchExpressions/0/values", []any{"prometheus"}},
		{"labels for Prometheus", `monitoring: {enabled: true, labels: {release: kube-prometheus-stack}}`, "ServiceMonitor/elsewhere/collection-operator",
			"metadata/labels/release", "kube-prometheus-stack"},
		{"the namespace of OLM", `olm: {enabled: true, namespaces: [olm2]}`, "NetworkPolicy/elsewhere/collection-operator-controller-manager",
			"spec/ingress/1/from/0/namespaceSelector/matchExpressions/0/values", []any{"olm2"}},
		{"allowed images", `allowedImages: [r.example.com/a/]`, "ValidatingAdmissionPolicy//collection-operator-allowed-images", "spec/variables/0/expression", "['r.example.com/a/']"},
		{"a selected namespace", `namespaces: [zos]`, "RoleBinding/zos/collection-operator-manager", "subjects/0/namespace", "elsewhere"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := strings.Split(test.path, "/")
			got, err := lookup(mustRender(t, test.values), append([]string{test.object}, path...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func slashed(path string) string { return strings.ReplaceAll(path, ".", "/") }

// The pods are replaced for another image of operators, but not for other settings, which the managers watch.
func TestWhatReplacesThePods(t *testing.T) {
	c, err := loader.Load(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	const noTag = `runtime: {image: {tag: ""}}`
	pods := func(values string) any {
		t.Helper()
		objects, err := render(c, parse(t, required(t), noTag, values))
		if err != nil {
			t.Fatal(err)
		}
		template, err := lookup(objects, []string{"StatefulSet/elsewhere/collection-operator-controller-manager", "spec", "template"})
		if err != nil {
			t.Fatal(err)
		}
		return template
	}
	before := pods(noTag)
	for values, replaced := range map[string]bool{
		`settings: {fetch-timeout: 5m}`: false, `namespaces: [zos]`: false, `runtime: {image: {tag: v2}}`: true,
	} {
		if changed := !cmp.Equal(before, pods(values)); changed != replaced {
			t.Errorf("%s: pods change: %t", values, changed)
		}
	}
	c.Metadata.AppVersion = "99.0.0"
	if cmp.Equal(before, pods(noTag)) {
		t.Error("another version of the chart, which has another image of operators, does not change the pods")
	}
}

// If the field ended with the last setting, Helm would remove the keys that administrators have added.
func TestSettingsHaveAlwaysData(t *testing.T) {
	settings, _ := mustRender(t)["ConfigMap/elsewhere/collection-operator-settings"].(map[string]any)
	if _, ok := settings["data"].(map[string]any); !ok {
		t.Errorf("ConfigMap collection-operator-settings has no data: %v", settings)
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	tests := []struct{ name, values, want string }{
		{"no image", `image: {repository: ""}`, "image.repository is missing: build and push the image as docs/install.md explains, and name it"},
		{"no runtime image", `runtime: {image: {repository: ""}}`, "runtime.image.repository is missing"},
		{"a misspelled value", `replica: 2`, "additional properties 'replica' not allowed"},
		{"a flag that does not exist", `settings: {fetch-timeuot: 5m}`, "at '/settings': additional properties 'fetch-timeuot' not allowed"},
		{"a flag with a value of its own", `settings: {namespaces: [zos]}`, "at '/settings': additional properties 'namespaces' not allowed"},
		{"a duration without unit", `settings: {fetch-timeout: "5"}`, "at '/settings/fetch-timeout': '5' does not match pattern"},
		{"a flag that the pod depends on", `settings: {storage-dir: /tmp}`, "at '/settings': additional properties 'storage-dir' not allowed"},
		{"no number", `replicas: "2"`, "at '/replicas': got string, want integer"},
		{"no manager", `replicas: 0`, "at '/replicas': minimum: got 0, want 1"},
		{"a tag that YAML reads as a number", `image: {tag: 1.0}`, "at '/image/tag': got number, want string"},
		{"a tag in the repository", `image: {repository: "r.example.com/m:v1"}`, "at '/image/repository': 'r.example.com/m:v1' does not match pattern"},
		{"a short digest", `image: {digest: "sha256:12"}`, "at '/image/digest': 'sha256:12' does not match pattern"},
		{"an architecture", `runtime: {architectures: [z]}`, "at '/runtime/architectures/0': value must be one of 'amd64', 'arm64', 'ppc64le', 's390x'"},
		{"a prefix that leaves the expression", `allowedImages: ["x', '"]`, "at '/allowedImages/0'"},
		{"a prefix that names no folder", `allowedImages: [r.example.com/zos]`, "at '/allowedImages/0'"},
		{"a namespace", `namespaces: [Zos]`, "at '/namespaces/0'"},
	}
	c, err := committed()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := render(c, parse(t, required(t), test.values)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestParseImage(t *testing.T) {
	for name, want := range map[string]image{
		"r.example.com:5000/m":               {repository: "r.example.com:5000/m"},
		"r.example.com:5000/m:v1":            {repository: "r.example.com:5000/m", tag: "v1"},
		"r.example.com/a/m:v1@" + digest:     {repository: "r.example.com/a/m", tag: "v1", digest: digest},
		"r.example.com/a/m@" + digest:        {repository: "r.example.com/a/m", digest: digest},
		"collection-operator/manager:latest": {repository: "collection-operator/manager", tag: "latest"},
	} {
		if got := parseImage(name); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

func TestImagesOfAPublishedChart(t *testing.T) {
	const good = "r.example.com/m@" + digest
	tests := []struct {
		manager, runtime string
		allowTags        bool
		want             string
	}{
		{good, "localhost/m@" + digest, false, ""},
		{"r:5000/m:v1", good, true, ""},
		{"r.example.com/m:v1", good, false, "-image: image r.example.com/m has no digest"},
		{good, "collection-operator/runtime@" + digest, true, `-runtime-image: image "collection-operator/runtime" names no registry`},
		{"", good, true, `-image: image "" names no registry`},
		{good, "r.example.com/m@sha256:0f1e", true, "-runtime-image: sha256:0f1e is no digest"},
	}
	for _, test := range tests {
		err := images{parseImage(test.manager), parseImage(test.runtime)}.check(test.allowTags)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s and %s: got %v, want %s", test.manager, test.runtime, err, test.want)
		}
	}
}

const help = "Usage:\n\nFlags:\n" +
	"  -h, --help                     help for manager\n" +
	"      --fetch-timeout duration   timeout (default 10m0s)\n" +
	"      --metrics-secure           serve metrics with TLS\n" +
	"      --serving-name name        further name; may be repeated\n" +
	"      --galaxy-url string        Galaxy server; default: environment variable GALAXY_URL (default \"https://user:secret@galaxy.example.com\")\n"

func TestSettingsOfTheHelp(t *testing.T) {
	if _, err := parseSettings(help); err == nil {
		t.Error("a few flags were accepted as all")
	}
	padding := ""
	for i := range 20 {
		padding += "      --flag-" + string(rune('a'+i)) + " string   text\n"
	}
	settings, err := parseSettings(help + padding)
	if err != nil {
		t.Fatal(err)
	}
	want := []property{
		{name: "fetch-timeout", description: "timeout (default 10m0s)", schema: settingSchema("fetch-timeout", "duration", "")},
		{name: "metrics-secure", description: "serve metrics with TLS", schema: boolean()},
		{name: "serving-name", description: "further name; may be repeated", schema: schema{"type": []any{"array", "string"}, "items": text()}},
		{name: "galaxy-url", description: "Galaxy server; default: environment variable GALAXY_URL", schema: text()},
	}
	if diff := cmp.Diff(want, settings[:4], cmp.AllowUnexported(property{})); diff != "" {
		t.Error(diff)
	}
}

func TestPackedChart(t *testing.T) {
	padded := help
	for i := range 20 {
		padded += "      --flag-" + string(rune('a'+i)) + " string   text\n"
	}
	files, err := generate(sourceManifests(t), padded, options{version: "1.2.3", images: images{
		manager: parseImage("r.example.com/manager@" + digest), runtime: parseImage("r.example.com/runtime:v1.2.3")}})
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := pack(&first, files); err != nil {
		t.Fatal(err)
	}
	if err := pack(&second, files); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same chart gives different archives")
	}
	c, err := loader.LoadArchive(&first)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	objects, err := render(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		statefulSet + ".spec.template.spec.containers.manager.image": "r.example.com/manager@" + digest,
		statefulSet + "." + runtimeImagePath:                         "r.example.com/runtime:v1.2.3",
	}
	for path, image := range want {
		if got, err := lookup(objects, strings.Split(strings.ReplaceAll(path, namespace, elsewhere), ".")); err != nil || got != image {
			t.Errorf("%s: got %v, want %s: %v", path, got, image, err)
		}
	}
}
