package podfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Personal is the credential of a user, for one run.
type Personal struct {
	// Endpoint is the one that it is for.
	Endpoint   string
	Credential endpoint.Credential
	// Folder is in memory, and has what the run gets. It is named after the run.
	Folder string
}

// PersonalFolder returns the folder of the credential of a run. A playbook that outlives its gate never finds what a later run gets.
// The path is short, because ssh has sockets in it, whose paths have at most 107 bytes.
func (f *Files) PersonalFolder(uid types.UID, run string) string {
	sum := sha256.Sum256([]byte(string(uid) + "/" + run))
	return filepath.Join(f.StateDir, "p", hex.EncodeToString(sum[:])[:10])
}

// logonVariables are those of Ansible with which the variables of an endpoint would log on as somebody else.
var logonVariables = []string{
	"ansible_ssh_user", "ansible_password", "ansible_ssh_pass", "ansible_ssh_password", "ansible_private_key_file", "ansible_ssh_private_key_file",
	"ansible_private_key", "ansible_ssh_private_key", "ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase",
}

// Write writes what the installation has of the endpoint, and the credential, for this user alone.
func (p *Personal) Write(endpointsDir string) error {
	if err := os.RemoveAll(p.Folder); err != nil {
		return err
	}
	if err := os.MkdirAll(p.endpoints(), 0o700); err != nil {
		return err
	}
	variables := map[string]json.RawMessage{}
	if err := ReadJSON(filepath.Join(endpointsDir, p.Endpoint+"_vars.yaml"), &variables); err != nil {
		return err
	}
	for _, name := range logonVariables {
		delete(variables, name)
	}
	if p.Credential.User != "" {
		user, err := json.Marshal(p.Credential.User)
		if err != nil {
			return err
		}
		variables["ansible_user"] = user
	}
	content, err := json.Marshal(variables)
	if err != nil {
		return err
	}
	knownHosts, err := ReadFile(filepath.Join(endpointsDir, p.Endpoint+"_known_hosts"))
	if err != nil {
		return err
	}
	for suffix, content := range map[string][]byte{
		"_vars.yaml": content, "_known_hosts": knownHosts,
		"_key": p.Credential.PrivateKey, "_passphrase": p.Credential.Passphrase, "_password": p.Credential.Password,
	} {
		if len(content) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(p.endpoints(), p.Endpoint+suffix), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *Personal) endpoints() string { return filepath.Join(p.Folder, "endpoints") }

// Environment lets the run find its credential instead of the installation's endpoints, and have copies and connections of its own.
func (p *Personal) Environment() []string {
	return []string{
		"ZOSCB_ENDPOINTS_DIR=" + p.endpoints(), "ZOSCB_STATE_DIR=" + filepath.Join(p.Folder, "state"), "ANSIBLE_SSH_CONTROL_PATH_DIR=" + p.Folder,
	}
}
