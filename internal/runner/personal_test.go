package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/gate"
)

func TestPersonalCredentialIsGivenToOneRun(t *testing.T) {
	r := newPlay(t, writeReport+`
cat "$ZOSCB_ENDPOINTS_DIR/zos1_vars.yaml" >"$2/vars"
ls "$ZOSCB_ENDPOINTS_DIR" | tr '\n' ' ' >"$2/files"
cat "$ZOSCB_ENDPOINTS_DIR/zos1_key" >"$2/key"
report '{"ended": "successful"}'`)
	endpoints := t.TempDir()
	r.files.endpointsDir, r.files.stateDir = endpoints, t.TempDir()
	must(t, os.WriteFile(filepath.Join(endpoints, "zos1_vars.yaml"), []byte(`{"ansible_host": "h", "ansible_port": 22, "ansible_user": "SHARED"}`), 0o600))
	must(t, os.WriteFile(filepath.Join(endpoints, "zos1_known_hosts"), []byte("h ssh-ed25519 AAAA\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(endpoints, "zos2_key"), []byte("another"), 0o600))
	folder := r.personalFolder("5a1c1e0e-7c1d-4e0e-9f4e-0123456789ab")
	r.personal = &personal{endpoint: "zos1", credential: endpoint.Credential{User: "ALICE", PrivateKey: []byte("k3y")}, folder: folder}
	must(t, os.MkdirAll(filepath.Join(folder, "endpoints"), 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "endpoints", "zos1_password"), []byte("left by a run that was killed"), 0o600))

	if report, outcome := r.playLocked(t); outcome != gate.OutcomeSucceeded {
		t.Fatal(outcome, report)
	}
	variables := map[string]any{}
	must(t, json.Unmarshal(mustRead(t, filepath.Join(r.call.dir, "vars")), &variables))
	if variables["ansible_user"] != "ALICE" || variables["ansible_host"] != "h" {
		t.Errorf("variables %v", variables)
	}
	if files := string(mustRead(t, filepath.Join(r.call.dir, "files"))); files != "zos1_key zos1_known_hosts zos1_vars.yaml " {
		t.Errorf("files %q", files)
	}
	if key := string(mustRead(t, filepath.Join(r.call.dir, "key"))); key != "k3y" {
		t.Errorf("key %q", key)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the credential is left: %v", err)
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return content
}

// ssh appends a random suffix of 17 bytes to the path of a socket while it creates it, and Ansible's %C has 40.
func TestPathsOfSocketsAreShort(t *testing.T) {
	r := &runner{files: &files{stateDir: "/opt/ansible/home/zoscb"}}
	folder := r.personalFolder("5a1c1e0e-7c1d-4e0e-9f4e-0123456789ab")
	if path := folder + "/" + strings.Repeat("f", 12) + strings.Repeat("c", 40) + strings.Repeat("x", 17); len(path) > 107 {
		t.Errorf("%d bytes: %s", len(path), path)
	}
	if empty := r.personalFolder(""); filepath.Dir(empty) != "/opt/ansible/home/zoscb/p" {
		t.Errorf("a resource without UID has %s", empty)
	}
}
