package localrun

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

func declaredEndpoint() *v2beta2.ZosEndpoint {
	e := &v2beta2.ZosEndpoint{}
	e.Spec.Host, e.Spec.CredentialName, e.Spec.HostKeys = "production", "logon", []string{"ssh-ed25519 OLD"}
	for _, text := range []string{`"ansible_host=production"`, `"ansible_port=23"`, `"ansible_user=prod"`, `"color=red"`} {
		e.Spec.Variables = append(e.Spec.Variables, apiextensionsv1.JSON{Raw: []byte(text)})
	}
	return e
}

func TestFlagsTakePrecedenceOverTheZosEndpoint(t *testing.T) {
	known := filepath.Join(t.TempDir(), "known_hosts")
	writeFile(t, known, "test ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0x1\n")
	secrets := map[string]*corev1.Secret{"logon": {Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")}}}
	for _, c := range []struct {
		host, wantHost, wantUser string
		want                     map[string]any
	}{
		{"ibmuser@test", "test", "ibmuser", map[string]any{"color": "red"}},
		{"test", "test", "u", map[string]any{"color": "red", "ansible_user": "prod"}},
	} {
		e, _, err := connect(t.Context(), "lpar1", Login{Host: c.host, KnownHosts: known}, declaredEndpoint(), secrets, endpoint.Key("k"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, e.Variables); diff != "" || e.Host != c.wantHost || e.User != c.wantUser {
			t.Errorf("%s: host %s, user %s: %s", c.host, e.Host, e.User, diff)
		}
		if len(e.HostKeys) != 1 || e.HostKeys[0] == "ssh-ed25519 OLD" {
			t.Errorf("%s: host keys %v", c.host, e.HostKeys)
		}
	}
}

func TestAMissingSecretIsNotReplacedByAKeyOfTheAuthor(t *testing.T) {
	_, _, err := connect(t.Context(), "lpar1", Login{}, declaredEndpoint(), nil, endpoint.Key("k"))
	if err == nil || !strings.Contains(err.Error(), `no Secret "logon"`) {
		t.Errorf("got %v", err)
	}
}

func TestARevokedHostKeyIsNotKnown(t *testing.T) {
	known := filepath.Join(t.TempDir(), "known_hosts")
	writeFile(t, known, "test ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0x1\n@revoked test ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0x1\n")
	if keys, err := knownHostKeys(t.Context(), "test", 22, known); err == nil {
		t.Errorf("got %v", keys)
	}
}

func TestAResourceOfAClusterIsNew(t *testing.T) {
	o := objectsOf(t, `kind: File
metadata:
  name: one
  uid: 1-2
  resourceVersion: "7"
  generation: 3
  annotations: {zoscb.ibm.com/run-record: x, zoscb.ibm.com/cancel-requested: "7", mine: z}
spec: {zosendpoint: lpar1, path: /x}
status: {phase: Succeeded}
`)[0]
	o.renew()
	want := map[string]any{
		"kind": "File", "metadata": map[string]any{"name": "one", "annotations": map[string]any{"mine": "z"}},
		"spec": map[string]any{"zosendpoint": "lpar1", "path": "/x"},
	}
	if diff := cmp.Diff(want, o.Object); diff != "" {
		t.Error(diff)
	}
}

// ssh reads the configuration of the user whatever HOME says.
func TestSSHReadsNoConfigurationOfTheUser(t *testing.T) {
	machine := t.TempDir()
	fake := filepath.Join(machine, "it's ssh")
	writeFile(t, fake, "#!/bin/sh\necho \"$@\"\n")
	if err := os.Chmod(fake, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fake, filepath.Join(machine, "ssh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", machine+":"+os.Getenv("PATH"))
	f, err := newFolder()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.remove() }()
	env, err := f.environment()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(f.path("opt/ansible/engine/ssh"), "-o", "HostKeyAlias=lpar1", "host")
	command.Env = env
	out, err := command.CombinedOutput()
	if err != nil || string(out) != "-F /dev/null -o HostKeyAlias=lpar1 host\n" {
		t.Errorf("ssh got %q, %v", out, err)
	}
}
