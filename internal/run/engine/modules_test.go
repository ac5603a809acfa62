package engine

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/test/ansible"
)

// fakeAPI serves one object of one kind, with a status subresource. It returns
// the patches that it got.
func fakeAPI(t *testing.T) (url string, patches *[]map[string]any) {
	t.Helper()
	patches = &[]map[string]any{}
	const group, path = "example.com", "/apis/example.com/v1/namespaces/team/things/one"
	object := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": "one", "namespace": "team"},
		"status": map[string]any{"phase": "old", "kept": true, "conditions": []any{
			map[string]any{"type": "Running", "status": "True"},
		}},
	}
	version := map[string]any{"groupVersion": "example.com/v1", "version": "v1"}
	answers := map[string]any{
		"GET /version": map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
		"GET /api":     map[string]any{"kind": "APIVersions", "versions": []any{}},
		"GET /apis": map[string]any{"kind": "APIGroupList", "groups": []any{map[string]any{
			"name": group, "versions": []any{version}, "preferredVersion": version,
		}}},
		"GET /apis/example.com/v1": map[string]any{"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": []any{
			map[string]any{"name": "things", "kind": "Thing", "namespaced": true, "verbs": []any{"get"}},
			map[string]any{"name": "things/status", "kind": "Thing", "namespaced": true, "verbs": []any{"patch"}},
		}},
		"GET " + path: object,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[request.Method+" "+request.URL.Path]
		if request.Method == http.MethodPatch && request.URL.Path == path+"/status" {
			var patch map[string]any
			_ = json.NewDecoder(request.Body).Decode(&patch)
			*patches = append(*patches, patch)
			answer, ok = object, request.Header.Get("Content-Type") == "application/merge-patch+json"
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(server.Close)
	return server.URL, patches
}

func TestModulesOfOperatorSDK(t *testing.T) {
	r := newRig(t)
	if exec.Command("/usr/bin/python3", "-c", "import kubernetes").Run() != nil {
		ansible.Skip(t, "the Python package kubernetes is missing: hack/test-packages.sh installs the Debian package python3-kubernetes")
	}
	url, patches := fakeAPI(t)
	r.write("kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
users: [{name: u, user: {}}], clusters: [{name: c, cluster: {server: "`+url+`"}}]}`)
	r.env = append(r.env, "K8S_AUTH_KUBECONFIG="+r.root+"/kubeconfig",
		"ANSIBLE_COLLECTIONS_PATH="+r.root+"/usr/share/ansible/collections")
	r.secret("pod_vars.yaml", "ansible_connection: local\n")
	r.playbook(`
- hosts: all
  gather_facts: false
  module_defaults:
    operator_sdk.util.k8s_status: {api_version: example.com/v1, kind: Thing, name: one, namespace: team}
  tasks:
    - operator_sdk.util.k8s_status:
        status: {phase: new}
        conditions: [{type: Ready, status: "True", reason: Done, lastTransitionTime: "2026-01-01T00:00:00Z"}]
    - operator_sdk.util.k8s_status:
        status: {phase: old}
    - operator_sdk.util.k8s_status:
        status: {phase: new}
        force: true
    - operator_sdk.util.requeue_after: {time: 10m}
`)
	got := r.run("pod")
	got.expectSuccess(t)
	want := []map[string]any{
		{"status": map[string]any{"phase": "new", "conditions": []any{
			map[string]any{"type": "Running", "status": "True"},
			map[string]any{"type": "Ready", "status": "True", "reason": "Done", "lastTransitionTime": "2026-01-01T00:00:00Z"},
		}}},
		{"status": map[string]any{"phase": "new", "kept": nil, "conditions": nil}},
	}
	if diff := cmp.Diff(want, *patches); diff != "" {
		t.Errorf("patches (-want +got):\n%s", diff)
	}
	if got.report.RequeueAfter != "10m" {
		t.Errorf("requeue_after gave %q, want 10m", got.report.RequeueAfter)
	}
}
