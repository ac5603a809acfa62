package localrun

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
)

func TestTheLocalAPIRefusesWhatContradictsTheRequest(t *testing.T) {
	a, err := kubeapi.Start(kubeapi.UsualKinds())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const maps = "/api/v1/namespaces/team/configmaps"
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", maps, `{"metadata": {}}`, 422},
		{"POST", maps, `{"metadata": {"name": "a/b"}}`, 422},
		{"POST", maps, `{"metadata": "x"}`, 400},
		{"POST", maps, `null`, 400},
		{"POST", maps, `{"kind": "Secret", "metadata": {"name": "one"}}`, 400},
		{"POST", maps, `{"metadata": {"name": "one", "namespace": "other"}}`, 400},
		{"POST", maps + "?dryRun=All", `{"metadata": {"name": "one"}}`, 201},
		{"GET", maps + "/one", "", 404},
		{"POST", maps, `{"metadata": {"name": "one", "labels": {"a": "b"}}}`, 201},
		{"PUT", maps + "/one", `null`, 400},
		{"PUT", maps + "/one", `{"metadata": {"name": "two"}}`, 400},
		{"PUT", maps + "/one?dryRun=All", `{"data": {"a": "b"}}`, 200},
		{"DELETE", maps + "/one?dryRun=All", "", 200},
		{"GET", maps + "/one", "", 200},
		{"GET", maps + "?labelSelector=a%3Db", "", 200},
		{"GET", maps + "?labelSelector=%21%21", "", 400},
		{"GET", maps + "?fieldSelector=metadata.name%3Done", "", 400},
	} {
		if got := request(t, a, c.method, c.path, "", c.body, true); got != c.want {
			t.Errorf("%s %s %s: got %d, want %d", c.method, c.path, c.body, got, c.want)
		}
	}
	writes := a.Taken()
	if len(writes) != 1 || writes[0].Verb != "created" || writes[0].Object.GetKind() != "ConfigMap" || writes[0].Object.Object["data"] != nil {
		t.Errorf("wrote %+v", writes)
	}
}

func unstructuredOf(version, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func TestWrittenObjectsArePrivateAndDoNotCollide(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	writeFile(t, outside, "mine")
	if err := os.Symlink(outside, filepath.Join(dir, "secret-one.yaml")); err != nil {
		t.Fatal(err)
	}
	home := unstructuredOf("v1", "Secret", "team", "one")
	home.SetUID("1")
	resource := unstructuredOf("v1", "File", "team", "one")
	result := Result{Resource: resource, Writes: []Write{
		{Verb: "created", Object: home},
		{Verb: "created", Object: unstructuredOf("v1", "Secret", "other", "one")},
		{Verb: "created", Object: unstructuredOf("example.com/v1", "Secret", "team", "one")},
	}}
	for i := range result.Writes {
		result.Writes[i].Object.SetUID("1")
	}
	names, err := result.WriteObjects(dir)
	if want := []string{"other_secret-one.yaml", "secret-one.yaml", "secret.example.com-one.yaml"}; err != nil || !cmp.Equal(names, want) {
		t.Errorf("wrote %v, %v", names, err)
	}
	info, err := os.Lstat(filepath.Join(dir, "secret-one.yaml"))
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
	if content, _ := os.ReadFile(outside); string(content) != "mine" {
		t.Errorf("the target of the link has %q", content)
	}
}

func TestPrintedNamesArePrintable(t *testing.T) {
	var out strings.Builder
	result := Result{Resource: unstructuredOf("v1", "File", "team", "one"), Ran: true, Writes: []Write{
		{Verb: "created", Object: unstructuredOf("v1", "ConfigMap", "team", "\x1b[31mred")},
	}}
	if err := result.Print(&out); err != nil || strings.Contains(out.String(), "\x1b") {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}
