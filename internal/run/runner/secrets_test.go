package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestPersonalCredentialIsGivenToOneRun(t *testing.T) {
	r := newPlay(t, writeReport+`
cat "$ZOSCB_ENDPOINTS_DIR/zos1_vars.yaml" >"$2/vars"
ls "$ZOSCB_ENDPOINTS_DIR" | tr '\n' ' ' >"$2/files"
cat "$ZOSCB_ENDPOINTS_DIR/zos1_key" >"$2/key"
report '{"ended": "successful"}'`)
	endpoints := t.TempDir()
	r.files.EndpointsDir, r.files.StateDir = endpoints, t.TempDir()
	apiserver.Must(t, os.WriteFile(filepath.Join(endpoints, "zos1_vars.yaml"), []byte(`{"ansible_host": "h", "ansible_port": 22, "ansible_user": "SHARED",
"ansible_ssh_user": "SHARED", "ansible_password": "shared", "ansible_ssh_private_key_file": "/shared"}`), 0o600))
	apiserver.Must(t, os.WriteFile(filepath.Join(endpoints, "zos1_known_hosts"), []byte("h ssh-ed25519 AAAA\n"), 0o600))
	apiserver.Must(t, os.WriteFile(filepath.Join(endpoints, "zos2_key"), []byte("another"), 0o600))
	folder := r.files.PersonalFolder("5a1c1e0e-7c1d-4e0e-9f4e-0123456789ab", "42")
	r.personal = &podfiles.Personal{Endpoint: "zos1", Credential: endpoint.Credential{User: "ALICE", PrivateKey: []byte("k3y")}, Folder: folder}
	apiserver.Must(t, os.MkdirAll(filepath.Join(folder, "endpoints"), 0o700))
	apiserver.Must(t, os.WriteFile(filepath.Join(folder, "endpoints", "zos1_password"), []byte("left by a run that was killed"), 0o600))

	if report, outcome := r.playLocked(t); outcome != gate.OutcomeSucceeded {
		t.Fatal(outcome, report)
	}
	variables := map[string]any{}
	apiserver.Must(t, json.Unmarshal(mustRead(t, filepath.Join(r.call.Dir, "vars")), &variables))
	want := map[string]any{"ansible_host": "h", "ansible_port": 22.0, "ansible_user": "ALICE"}
	if diff := cmp.Diff(want, variables); diff != "" {
		t.Error(diff)
	}
	if files := string(mustRead(t, filepath.Join(r.call.Dir, "files"))); files != "zos1_key zos1_known_hosts zos1_vars.yaml " {
		t.Errorf("files %q", files)
	}
	if key := string(mustRead(t, filepath.Join(r.call.Dir, "key"))); key != "k3y" {
		t.Errorf("key %q", key)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the credential is left: %v", err)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	apiserver.Must(t, err)
	return content
}

func TestCredentialOfARunThatLostItsGateIsRemoved(t *testing.T) {
	r := newPlay(t, "")
	r.files.StateDir = t.TempDir()
	r.journal = podfiles.Journal{Dir: t.TempDir()}
	folder := r.files.PersonalFolder("a", "41")
	apiserver.Must(t, os.MkdirAll(folder, 0o700))
	apiserver.Must(t, r.journal.Write(podfiles.Entry{UID: "a", Check: true, Run: runstatus.Run{ID: "41"}}))
	apiserver.Must(t, podfiles.WriteJSON(r.call.ReportFile(), runstatus.Report{Ended: "well"}))
	away, err := dynamic.NewForConfig(&rest.Config{Host: "http://127.0.0.1:1"})
	apiserver.Must(t, err)
	r.resource = resource{client: away.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")), name: "a"}
	if _, err := (recorder{r.scope}).recover(t.Context(), &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "a"}}}); err == nil {
		t.Fatal("the API server is away")
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the credential is left: %v", err)
	}
}
