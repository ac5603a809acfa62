package encrypt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func writeKey(t *testing.T, passphrase string) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKeyWithPassphrase(key, "", []byte(passphrase))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Where there is no client, as in the pod of an operator, the manifest is printed.
func TestPrintsWithoutClient(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(passphraseVariable, "open sesame")
	file := writeKey(t, "open sesame")
	var stdout, stderr bytes.Buffer
	if err := Run([]string{"credential-secret", "-n", "mine", "-u", "IBMUSER", "-s", file, "-p"}, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := yaml.UnmarshalStrict(stdout.Bytes(), &secret); err != nil || secret.Name != "mine" || string(secret.Data["username"]) != "IBMUSER" || string(secret.Data["passphrase"]) != "open sesame" {
		t.Errorf("got %s, %v", &stdout, err)
	}
	if !strings.Contains(stderr.String(), "ssh-ed25519, fingerprint SHA256:") {
		t.Errorf("got %s", &stderr)
	}
}

// With a client, the manifest goes to its standard input and to nobody else.
func TestWritesWithClient(t *testing.T) {
	t.Setenv(passphraseVariable, "open sesame")
	for name, tt := range map[string]struct {
		live      string // what the client finds
		arguments string // of the last call
		want, not string // in what the client gets, or in the error
	}{
		"new":               {"", "apply --server-side --force-conflicts --field-manager=zoscb-encrypt -f -", "type: kubernetes.io/ssh-auth", "resourceVersion"},
		"made by others":    {`{"type":"kubernetes.io/ssh-auth","metadata":{"name":"mine","resourceVersion":"7"},"data":{"password":"b2xk"}}`, "replace --field-manager=zoscb-encrypt -f -", "resourceVersion: \"7\"", "password:"},
		"of authors' tools": {`{"type":"Opaque","metadata":{"name":"mine","labels":{"zoscb.ibm.com/credential":"true"}},"data":{"ssh_key":"b2xk"}}`, "replace --field-manager=zoscb-encrypt -f -", "type: Opaque", "ssh_key"},
		"no credential":     {`{"type":"Opaque","metadata":{"name":"mine"}}`, "get secret mine --ignore-not-found -o json", "is no credential", "ssh-privatekey"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("PATH", dir+":/usr/bin:/bin")
			client := "#!/bin/sh\necho \"$@\" >" + dir + "/arguments\ncase $1 in get) cat " + dir + "/live;; *) cat >" + dir + "/stdin; echo secret/mine written;; esac\n"
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "oc"), []byte(client), 0o700), os.WriteFile(filepath.Join(dir, "live"), []byte(tt.live), 0o600)); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			failed := Run([]string{"credential-secret", "-n", "mine", "-u", "IBMUSER", "-s", writeKey(t, "open sesame"), "-p"}, &stdout, &stderr)
			arguments, err := os.ReadFile(filepath.Join(dir, "arguments"))
			if err != nil || string(arguments) != tt.arguments+"\n" {
				t.Errorf("got %q, %v", arguments, err)
			}
			got, _ := os.ReadFile(filepath.Join(dir, "stdin")) // There is none where it refuses to write.
			text := string(got)
			if failed != nil {
				text += failed.Error()
			}
			if !strings.Contains(text, tt.want) || strings.Contains(text, tt.not) || strings.Contains(stdout.String()+stderr.String(), "ssh-privatekey") {
				t.Errorf("got %s, printed %s%s", text, &stdout, &stderr)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	file := writeKey(t, "open sesame")
	for want, args := range map[string][]string{
		"no command":          nil,
		"is not known":        {"decrypt"},
		"-n, -u and -s":       {"credential-secret", "-n", "mine"},
		"are needed":          {"credential-secret", "-x"},
		"variable PASSPHRASE": {"credential-secret", "-n", "mine", "-u", "IBMUSER", "-s", file},
		"PASSPHRASE is not":   {"credential-secret", "-n", "mine", "-u", "IBMUSER", "-s", file, "-p"},
		"no such file":        {"credential-secret", "-n", "mine", "-u", "IBMUSER", "-s", file + "x"},
		"begins with -----":   {"credential-secret", "-n", "mine", "-u", "IBMUSER", "-s", os.DevNull},
	} {
		var out bytes.Buffer
		if err := Run(args, &out, &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", args, err)
		}
	}
	var out bytes.Buffer
	if err := Run([]string{"version"}, &out, &out); err != nil || !strings.HasPrefix(out.String(), "zoscb-encrypt ") {
		t.Errorf("got %s, %v", &out, err)
	}
}
