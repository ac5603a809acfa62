package render

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func secretData(t *testing.T, endpoints ...Endpoint) map[string]string {
	t.Helper()
	secret, err := EndpointsSecret(testCollection("1.0.0"), "zos", "team", endpoints, Lasting{RecordKey: testRecordKey})
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]string{}
	delete(secret.Data, gate.RecordKeyFile)
	delete(secret.Data, gate.EndpointsNamespaceFile)
	for key, value := range secret.Data {
		text := string(value)
		if strings.HasSuffix(key, suffixVars) {
			var compact bytes.Buffer
			if err := json.Compact(&compact, value); err != nil {
				t.Fatal(err)
			}
			text = compact.String()
		}
		data[key] = text
	}
	return data
}

func TestEndpointsSecret(t *testing.T) {
	key := "ssh-ed25519 AAAAC3Nz comment"
	tests := map[string]struct {
		endpoint Endpoint
		want     map[string]string
	}{
		"key": {
			Endpoint{
				Name: "zos1", Host: "ZOS1.example.com", User: "IBMUSER", HostKeys: []string{key, "ecdsa-sha2-nistp256 BBBB"},
				PrivateKey: []byte("key"), Passphrase: []byte("phrase"), CredentialID: "id",
			},
			map[string]string{
				"zos1_vars.yaml":   `{"ansible_host":"ZOS1.example.com","ansible_port":22,"ansible_user":"IBMUSER"}`,
				"zos1_known_hosts": "zos1.example.com ssh-ed25519 AAAAC3Nz\nzos1.example.com ecdsa-sha2-nistp256 BBBB\n",
				"zos1_key":         "key",
				"zos1_passphrase":  "phrase",
				"zos1_credential":  "id",
			},
		},
		"password and port": {
			Endpoint{Name: "zos1", Host: "::1", Port: 2022, HostKeys: []string{key}, Password: []byte("pw"), CredentialID: "id"},
			map[string]string{
				"zos1_vars.yaml":   `{"ansible_host":"::1","ansible_port":2022}`,
				"zos1_known_hosts": "[::1]:2022 ssh-ed25519 AAAAC3Nz\n",
				"zos1_password":    "pw",
				"zos1_credential":  "id",
			},
		},
		"variables win": {
			Endpoint{Name: "zos1", Host: "h", User: "A", CredentialID: "of nothing", Variables: map[string]any{
				"ansible_user": "B", "python": "{{ pyz }}/bin/python3", "env": map[string]any{"no": "yes", "at": "12:30"},
			}},
			map[string]string{
				"zos1_vars.yaml": `{"ansible_host":"h","ansible_port":22,"ansible_user":"B","env":{"at":"12:30","no":"yes"},"python":"{{ pyz }}/bin/python3"}`,
			},
		},
		"local": {
			Endpoint{Name: "pod", Local: true, Host: "ignored", User: "ignored", Password: []byte("ignored"), CredentialID: "ignored"},
			map[string]string{"pod_vars.yaml": `{"ansible_connection":"local"}`},
		},
		"personal": {
			Endpoint{
				Name: "zos1", Host: "h", HostKeys: []string{"ssh-ed25519 AAAAC3Nz"}, PersonalKey: []byte("pk"),
				PrivateKey: []byte("ignored"), Password: []byte("ignored"), CredentialID: "ignored",
			},
			map[string]string{
				"zos1_vars.yaml": `{"ansible_host":"h","ansible_port":22}`, "zos1_known_hosts": "h ssh-ed25519 AAAAC3Nz\n", "zos1_personal": "pk",
			},
		},
		"refused": {
			Endpoint{Name: "zos1", Host: "h", User: "A", PrivateKey: []byte("key"), CredentialID: "ignored", Refusal: "CredentialMissing: none"},
			map[string]string{
				"zos1_vars.yaml": `{"ansible_host":"h","ansible_port":22}`, "zos1_refusal": "CredentialMissing: none",
			},
		},
		"user is a template": {
			Endpoint{Name: "zos1", Host: "h", User: "{{ lookup('pipe', 'id') }}", PrivateKey: []byte("key")},
			map[string]string{
				"zos1_vars.yaml": `{"ansible_host":"h","ansible_port":22}`,
				"zos1_refusal":   "CredentialInvalid: the credential's username has characters that are not allowed",
			},
		},
		"host key with a second line": {
			Endpoint{Name: "zos1", Host: "h", HostKeys: []string{"ssh-rsa AAAA\n* ssh-rsa EVIL"}, PrivateKey: []byte("key")},
			map[string]string{
				"zos1_vars.yaml": `{"ansible_host":"h","ansible_port":22}`,
				"zos1_refusal":   `InvalidHostKeys: host key 0 of endpoint zos1 is not of the form "<type> <base64>"`,
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, secretData(t, tt.endpoint)); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEndpointsSecretWithoutEndpoints(t *testing.T) {
	if data := secretData(t); len(data) != 0 {
		t.Errorf("data %v", data)
	}
}

func TestEndpointsSecretHasTheRecordKey(t *testing.T) {
	secret, err := EndpointsSecret(testCollection("1.0.0"), "zos", "team", nil, Lasting{RecordKey: testRecordKey})
	if err != nil || !bytes.Equal(secret.Data[gate.RecordKeyFile], testRecordKey) {
		t.Errorf("data %v, error %v", secret, err)
	}
	if kept, known := secret.Data[gate.KeptSecretsFile]; known {
		t.Errorf("nobody has looked for Secrets in use, and %q are kept", kept)
	}
	for _, key := range [][]byte{nil, testRecordKey[1:]} {
		if _, err := EndpointsSecret(testCollection("1.0.0"), "zos", "team", nil, Lasting{RecordKey: key}); err == nil {
			t.Errorf("a key of %d bytes is accepted", len(key))
		}
	}
}

func TestEndpointsSecretNamesTheirNamespace(t *testing.T) {
	secret, err := EndpointsSecret(testCollection("1.0.0"), "zos", "team", nil, Lasting{RecordKey: testRecordKey})
	if err != nil || secret.Namespace != "zos" || string(secret.Data[gate.EndpointsNamespaceFile]) != "team" {
		t.Errorf("secret %v, error %v", secret, err)
	}
}

func TestEndpointsSecretRefuses(t *testing.T) {
	tests := map[string]struct {
		endpoints []Endpoint
		want      string
	}{
		"two of one name":     {[]Endpoint{{Name: "a"}, {Name: "b"}, {Name: "a"}}, "endpoint a is listed twice"},
		"a name of Ansible":   {[]Endpoint{{Name: "all"}}, "endpoint all"},
		"a path":              {[]Endpoint{{Name: "../a"}}, `endpoint "../a"`},
		"a separator":         {[]Endpoint{{Name: "a_key"}}, `endpoint "a_key"`},
		"a name too long":     {[]Endpoint{{Name: strings.Repeat("a", 250)}}, "longer than 241"},
		"a value not of JSON": {[]Endpoint{{Name: "a", Variables: map[string]any{"f": func() {}}}}, "endpoint a: variables"},
		"too much": {
			[]Endpoint{{Name: "a", PrivateKey: make([]byte, 600<<10)}, {Name: "b", PrivateKey: make([]byte, 600<<10)}},
			"map fewer endpoints",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := EndpointsSecret(testCollection("1.0.0"), "zos", "team", tt.endpoints, Lasting{RecordKey: testRecordKey})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
