package author

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// documents are those of a YAML stream.
func documents(t *testing.T, stream string) []any {
	t.Helper()
	parts := strings.Split(stream, "\n---\n")
	var objects []any
	for _, part := range parts[1:] {
		var object any
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

func TestRenderPrintsTheSameAsYAMLAndJSONFromFolderAndArchive(t *testing.T) {
	file, _, _ := strings.Cut(mustRun(t, kit.ExitClean, "build", clitest.FilesCollection, "--output", t.TempDir()), " ")
	fromArchive := mustRun(t, kit.ExitClean, "render", file, "--namespace", "zos")
	if fromFolder := mustRun(t, kit.ExitClean, "render", clitest.FilesCollection, "--namespace", "zos"); fromFolder != fromArchive {
		t.Errorf("folder and archive differ (-archive +folder):\n%s", cmp.Diff(fromArchive, fromFolder))
	}
	var list struct {
		APIVersion, Kind string
		Items            []any
	}
	if err := json.Unmarshal([]byte(mustRun(t, kit.ExitClean, "render", file, "--namespace", "zos", "--output", "json")), &list); err != nil {
		t.Fatal(err)
	}
	if list.APIVersion != "v1" || list.Kind != "List" {
		t.Errorf("JSON is a %s %s", list.APIVersion, list.Kind)
	}
	if diff := cmp.Diff(list.Items, documents(t, fromArchive)); diff != "" {
		t.Errorf("YAML and JSON differ (-json +yaml):\n%s", diff)
	}
}

func TestRenderPrintsEachObjectInOrder(t *testing.T) {
	const everything = "../../../internal/collection/render/testdata/collections/everything"
	printed := mustRun(t, kit.ExitClean, "render", everything, "--namespace", "zos", "--api-group", "PerCollection")
	var got []string
	for _, document := range documents(t, printed) {
		object := document.(map[string]any)
		metadata := object["metadata"].(map[string]any)
		got = append(got, fmt.Sprint(object["kind"], " ", metadata["name"]))
		for _, field := range []string{"status", "creationTimestamp", "ownerReferences"} {
			if object[field] != nil || metadata[field] != nil {
				t.Errorf("%s has the field %s", got[len(got)-1], field)
			}
		}
	}
	want := []string{
		"CustomResourceDefinition regions.every-thing.acme.example.suboperator.zoscb.ibm.com",
		"CustomResourceDefinition regionactions.every-thing.acme.example.suboperator.zoscb.ibm.com",
		"ServiceAccount acme-example-every-thing-operator",
		"Role acme-example-every-thing-operator",
		"RoleBinding acme-example-every-thing-operator",
		"ClusterRole zoscb:zos:acme-example-every-thing-operator",
		"ClusterRoleBinding zoscb:zos:acme-example-every-thing-operator",
		"NetworkPolicy acme-example-every-thing-operator",
		"ConfigMap acme-example-every-thing-operator-runtime",
		"Deployment acme-example-every-thing-operator",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects differ (-want +got):\n%s", diff)
	}
}

// Endpoints are in a Secret, and no Secret is printed: they change the comment alone.
func TestRenderTellsOfEndpointsAndPrintsNoSecret(t *testing.T) {
	all := mustRun(t, kit.ExitClean, "render", clitest.FilesCollection, "--namespace", "zos")
	two := mustRun(t, kit.ExitClean, "render", clitest.FilesCollection, "--namespace", "zos", "--endpoint", "lpar1", "--endpoint", "lpar2")
	head, objects, _ := strings.Cut(two, "\n---\n")
	_, same, _ := strings.Cut(all, "\n---\n")
	if objects != same {
		t.Errorf("endpoints change objects (-all +two):\n%s", cmp.Diff(same, objects))
	}
	if want := "Secret zos/example-zos-files-operator-endpoints"; !strings.Contains(head, want) || !strings.Contains(head, "ZosEndpoint lpar1, lpar2") {
		t.Errorf("the comment is:\n%s", head)
	}
	if slices.ContainsFunc(documents(t, all), func(o any) bool { return o.(map[string]any)["kind"] == "Secret" }) {
		t.Error("a Secret is printed")
	}
}

func TestRenderTakesTheManagersFlags(t *testing.T) {
	printed := mustRun(t, kit.ExitClean, "render", clitest.FilesCollection, "--namespace", "zos", "--runtime-image", "registry.example/runtime:2",
		"--runtime-architectures", "s390x", "--artifact-url", "http://artifacts.example/", "--galaxy-url", "https://galaxy.example",
		"--pip-index-url", "https://pypi.example/simple")
	for _, want := range []string{
		"image: registry.example/runtime:2\n", "- s390x\n", "artifactURL: http://artifacts.example/artifacts/sha256/", "https://galaxy.example", "https://pypi.example/simple",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not printed", want)
		}
	}
	if strings.Contains(printed, "amd64") {
		t.Error("a default architecture is printed beside the given one")
	}
}

func TestRenderRefusesFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "--namespace"},
		{[]string{"--namespace", "Z"}, "--namespace"},
		{[]string{"--namespace", "zos", "--endpoint", "a_b"}, "--endpoint"},
		{[]string{"--namespace", "zos", "--output", "xml"}, "--output"},
		{[]string{"--namespace", "zos", "--api-group", "Mine"}, "--api-group"},
	} {
		code, stdout, stderr := tool(t, append([]string{"render", clitest.FilesCollection}, test.args...)...)
		if code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q ended with %d and printed %q", test.args, code, stderr)
		}
	}
}
