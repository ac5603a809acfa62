package engine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// failingThing serves a resource whose Failure condition has the message of an earlier run. It rejects the first write, like
// after a concurrent change, and returns all writes.
func failingThing(t *testing.T, status string) (kubeconfig string, writes *[]map[string]any) {
	t.Helper()
	writes = &[]map[string]any{}
	const path = "/apis/example.com/v1/namespaces/team/things/one"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		user, _, _ := request.BasicAuth()
		switch request.Method + " " + request.URL.Path + " " + user {
		case "GET " + path + " owner":
			fmt.Fprintf(w, `{"metadata": {"name": "one", "resourceVersion": "%d"}, "status": {"kept": true, "conditions": [
				{"type": "Running", "status": "False"}, {"type": "Failure", "status": %q, "reason": "Failed", "message": "earlier"}]}}`,
				len(*writes)+1, status)
		case "PATCH " + path + "/status owner":
			var write map[string]any
			_ = json.NewDecoder(request.Body).Decode(&write)
			*writes = append(*writes, write)
			if len(*writes) == 1 {
				w.WriteHeader(http.StatusConflict)
			}
			fmt.Fprint(w, "{}")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf(`
clusters: [{name: proxy, cluster: {server: %q}}]
users: [{name: admin, user: {username: owner, password: unused}}]
`, strings.Replace(server.URL, "//", "//owner@", 1)), writes
}

func TestFailureConditionSaysWhyTheLastRunFailed(t *testing.T) {
	for _, test := range []struct {
		status string
		want   []string
	}{
		{"True", []string{"1: EndpointNotFound", "2: EndpointNotFound"}},
		{"False", nil},
	} {
		t.Run(test.status, func(t *testing.T) {
			r := newRig(t)
			kubeconfig, writes := failingThing(t, test.status)
			r.write("kubeconfig", kubeconfig)
			r.playbook("- hosts: all\n  tasks: []\n")
			got := r.reconcile(resource{
				name: "one", spec: map[string]any{"zosendpoint": "nowhere"},
				vars: map[string]any{"k8s_cr_version": "example.com/v1"}, kubeconfig: r.root + "/kubeconfig",
			})
			got.expectFailure(t, "EndpointNotFound")
			var seen []string
			for _, write := range *writes {
				conditions := write["status"].(map[string]any)["conditions"].([]any)
				reason, _, _ := strings.Cut(conditions[1].(map[string]any)["message"].(string), ": ")
				seen = append(seen, fmt.Sprint(write["metadata"].(map[string]any)["resourceVersion"], ": ", reason))
				if len(conditions) != 2 {
					t.Errorf("conditions are lost: %v", conditions)
				}
			}
			if diff := cmp.Diff(test.want, seen); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
