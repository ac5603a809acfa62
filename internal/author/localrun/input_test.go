package localrun

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func fileKind(t *testing.T) kubeapi.Kind {
	t.Helper()
	kinds, err := kindsOf(source(t).Collection)
	if err != nil {
		t.Fatal(err)
	}
	return kinds[0]
}

func TestAdmitReportsEveryProblemWithItsLine(t *testing.T) {
	resource := objectsOf(t, `apiVersion: suboperator.zoscb.ibm.com/v2minor0patch0
kind: File
metadata:
  name: One
spec:
  zosendpoint: lpar1
  lines: many
  pth: /tmp/x
`)[0]
	err := resource.admit(fileKind(t), "team")
	want := `objects.yaml:1: File One: apiVersion is suboperator.zoscb.ibm.com/v2minor0patch0: this version of the collection has suboperator.zoscb.ibm.com/v1minor0patch0
objects.yaml:4: File One: metadata.name: a lowercase RFC 1123 subdomain`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{`objects.yaml:8: File One: unknown field "spec.pth"`, "objects.yaml:7: File One: spec.lines: Invalid value", "objects.yaml:5: File One: spec.path: Required value"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v\nhas no %s", err, part)
		}
	}
}

// What ansible-operator writes for a watch of ours. The gate then reduces it to what is declared, as in a pod.
func TestExtraVarsAreThoseOfAnsibleOperator(t *testing.T) {
	k := fileKind(t)
	resource := objectsOf(t, strings.ReplaceAll(fileObject, "PATH", `"{{ evil }}"`))[0]
	if err := resource.admit(k, "team"); err != nil {
		t.Fatal(err)
	}
	objects, err := render.Installation(source(t).Collection, render.InstallationOptions{
		Namespace: "team", Group: k.Group, Runtime: v2beta2.RuntimeSpec{Image: "local"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var watches string
	for _, o := range objects {
		if config, ok := o.(*corev1.ConfigMap); ok {
			watches = config.Data[render.KeyWatches]
		}
	}
	w, err := watchOf([]byte(watches), "File")
	if err != nil {
		t.Fatal(err)
	}
	for event, playbook := range map[gate.Event]string{gate.EventCreate: "/opt/ansible/content/playbooks/file.yml", gate.EventDelete: "/opt/ansible/content/playbooks/file.yml"} {
		unsafe := func(text string) any { return map[string]any{"__ansible_unsafe": text} }
		want := map[string]any{
			"ansible_operator_meta": map[string]any{"name": "one", "namespace": "team"},
			"zosendpoint":           unsafe("lpar1"), "path": unsafe("{{ evil }}"), "lines": int64(2),
			"_suboperator_zoscb_ibm_com_file": map[string]any{},
			"_suboperator_zoscb_ibm_com_file_spec": map[string]any{
				"zosendpoint": unsafe("lpar1"), "path": unsafe("{{ evil }}"), "lines": int64(2),
			},
			"k8s_managed": true, "k8s_cr_event": string(event), "k8s_cr_kind": "File",
			"k8s_cr_group": "suboperator.zoscb.ibm.com", "k8s_cr_version": "suboperator.zoscb.ibm.com/v1minor0patch0",
			"zoscb_playbook": playbook, "zoscb_inventory_name": "",
		}
		if diff := cmp.Diff(want, w.extraVars(resource.Unstructured, event)); diff != "" {
			t.Errorf("%s: %s", event, diff)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"ibmuser@lpar1": "ibmuser lpar1 22", "ibmuser@lpar1:2022": "ibmuser lpar1 2022", "u@[::1]:23": "u ::1 23",
	} {
		s, e := &v2beta2.ZosEndpointSpec{}, render.Endpoint{}
		if err := (Login{Host: text}).address(s, &e); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := fmt.Sprintf("%s %s %d", e.User, s.Host, s.EffectivePort()); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"u@", "u@-oProxyCommand=x", "u@h:0", "u@h:x"} {
		if err := (Login{Host: text}).address(&v2beta2.ZosEndpointSpec{}, &render.Endpoint{}); err == nil {
			t.Errorf("%s is no error", text)
		}
	}
}

// request sends a request of a playbook, or of somebody without the token.
func request(t *testing.T, a *kubeapi.Server, method, path, contentType, body string, hasToken bool) int {
	t.Helper()
	url := a.URL + "/" + a.Token + path
	if !hasToken {
		url = a.URL + path
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func TestTheLocalAPIAnswersLikeAnAPIServer(t *testing.T) {
	k := fileKind(t)
	a, err := kubeapi.Start(append(kubeapi.UsualKinds(), k))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const maps, files = "/api/v1/namespaces/team/configmaps", "/apis/suboperator.zoscb.ibm.com/v1minor0patch0/namespaces/team/files"
	const merge = "application/merge-patch+json"
	for _, c := range []struct {
		method, path, contentType, body string
		noToken                         bool
		want                            int
	}{
		{method: "GET", path: maps, want: 200},
		{method: "GET", path: maps, noToken: true, want: 401},
		{method: "GET", path: "/apis/example.com/v1/widgets", want: 404},
		{method: "GET", path: maps + "/one", want: 404},
		{method: "POST", path: maps, body: `{"metadata": {"name": "one"}}`, want: 201},
		{method: "POST", path: maps, body: `{"metadata": {"name": "one"}}`, want: 409},
		{method: "POST", path: maps, body: `[`, want: 400},
		{method: "PATCH", path: maps + "/one", contentType: merge, body: `{"data": {"a": "b"}}`, want: 200},
		{method: "PATCH", path: maps + "/one", contentType: merge, body: `{"metadata": {"resourceVersion": "1"}}`, want: 409},
		{method: "DELETE", path: maps + "/one", want: 200},
		{method: "POST", path: files, body: `{"kind": "File", "metadata": {"name": "bad"}, "spec": {"zosendpoint": "lpar1"}}`, want: 422},
		{method: "POST", path: files, body: `{"kind": "File", "metadata": {"name": "one"}, "spec": {"zosendpoint": "lpar1", "path": "/x"}}`, want: 201},
		{method: "PATCH", path: files + "/one/status", contentType: merge, body: `{"status": {"a": "b"}, "spec": {"path": "/y"}}`, want: 200},
		{method: "PATCH", path: files + "/one", contentType: merge, body: `{"spec": {"lines": "many"}}`, want: 422},
	} {
		if got := request(t, a, c.method, c.path, c.contentType, c.body, !c.noToken); got != c.want {
			t.Errorf("%s %s %s: got %d, want %d", c.method, c.path, c.body, got, c.want)
		}
	}
	one := a.Get(k, "team", "one")
	path, _, _ := unstructured.NestedString(one.Object, "spec", "path")
	lines, _, _ := unstructured.NestedInt64(one.Object, "spec", "lines")
	if path != "/x" || lines != 2 || statusOf(one)["a"] != "b" {
		t.Errorf("stored %v", one.Object)
	}
}
