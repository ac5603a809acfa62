package podfiles

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestLogons(t *testing.T) {
	f := &Files{EndpointsDir: t.TempDir(), Namespace: "zos"}
	write := func(name, content string) {
		apiserver.Must(t, os.WriteFile(filepath.Join(f.EndpointsDir, name), []byte(content), 0o600))
	}
	for name, variables := range map[string]string{
		"password": `{"ansible_user": "ibmuser"}`, "other": `{"ansible_user": "other"}`,
		"template": `{"ansible_user": "{{ lookup('env', 'USER') }}"}`, "nobody": "{}", "odd": `{"ansible_user": 7}`,
		"local": `{"ansible_connection": "local"}`, "refused": `{"ansible_user": "ibmuser"}`, "bare": `{"ansible_user": "ibmuser"}`,
	} {
		write(name+"_vars.yaml", variables+"\n")
		write(name+"_password", "secret")
		if name != "bare" {
			write(name+"_credential", "id-of-"+name+"\n")
		}
	}
	for name, length := range map[string]int{"long": maxCredential, "longer": maxCredential + 1} {
		write(name+"_vars.yaml", "{}")
		write(name+"_credential", strings.Repeat("c", length))
	}
	write("refused_refusal", "CredentialInvalid: ...")
	write("broken_vars.yaml", "ansible_user: ibmuser\n")
	for name, user := range map[string]string{
		"password": "ibmuser", "other": "other", "template": "", "nobody": "", "odd": "", "local": "", "refused": "", "bare": "ibmuser",
	} {
		l, err := f.Logon(name)
		apiserver.Must(t, err)
		if l == nil || l.User != user {
			t.Fatalf("%s: %+v", name, l)
		}
		want := "id-of-" + name
		if slices.Contains([]string{"local", "refused", "bare"}, name) {
			want = ""
		}
		if l.Credential != want {
			t.Errorf("%s: credential %q", name, l.Credential)
		}
		if l.Unknown != (name == "bare") {
			t.Errorf("%s: an unknown credential is %t", name, l.Unknown)
		}
	}
	if l, err := f.Logon("long"); err != nil || len(l.Credential) != maxCredential {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := f.Logon("longer"); err == nil {
		t.Error("a file that is too long was read")
	}
	for _, name := range []string{"absent", "", "../x", "x/y"} {
		if l, err := f.Logon(name); l != nil || err != nil {
			t.Errorf("%q: %+v, %v", name, l, err)
		}
	}
	if _, err := f.Logon("broken"); err == nil {
		t.Error("variables that are not JSON were read")
	}
}

func TestNamespaceOfEndpoints(t *testing.T) {
	f := &Files{EndpointsDir: t.TempDir(), Namespace: "team"}
	path := filepath.Join(f.EndpointsDir, gate.EndpointsNamespaceFile)
	for content, want := range map[string]string{"": "team", "zos": "zos", "zos\n": "zos"} {
		apiserver.Must(t, os.WriteFile(path, []byte(content), 0o600))
		if got, err := f.EndpointsNamespace(); got != want || err != nil {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	apiserver.Must(t, os.Remove(path))
	if got, err := f.EndpointsNamespace(); got != "team" || err != nil {
		t.Errorf("without the file: %q, %v", got, err)
	}
}

func TestFilesOfACall(t *testing.T) {
	vars := map[string]any{
		"ansible_operator_meta": map[string]any{"namespace": "team", "name": "one"}, "k8s_cr_kind": "Region", "k8s_cr_event": "create",
	}
	without := func(name string) map[string]any {
		rest := maps.Clone(vars)
		delete(rest, name)
		return rest
	}
	key := strings.Repeat("k", gate.RecordKeyBytes)
	settings := `{"kinds": {"Region": {"plural": "regions"}}}`
	tests := map[string]struct {
		settings, key string
		vars          map[string]any
		want          string
	}{
		"complete":     {settings, key, vars, ""},
		"no settings":  {"", key, vars, "runs.json"},
		"no JSON":      {"{", key, vars, "runs.json"},
		"other kind":   {`{"kinds": {}}`, key, vars, `kind "Region" is not in runs.json`},
		"no key":       {settings, "", vars, "record.key"},
		"short key":    {settings, "k", vars, "record.key has 1 bytes instead of 32"},
		"no event":     {settings, key, without("k8s_cr_event"), "the extra vars do not name a resource and an event"},
		"no resource":  {settings, key, without("ansible_operator_meta"), "the extra vars do not name a resource and an event"},
		"no variables": {settings, key, nil, "extravars"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("ZOSCB_SETTINGS", filepath.Join(dir, gate.SettingsFile))
			t.Setenv("ZOSCB_ENDPOINTS_DIR", dir)
			t.Setenv("ZOSCB_STATE_DIR", dir)
			apiserver.Must(t, os.Mkdir(filepath.Join(dir, "env"), 0o700))
			content := ""
			if test.vars != nil {
				encoded, err := json.Marshal(test.vars)
				apiserver.Must(t, err)
				content = string(encoded)
			}
			for path, content := range map[string]string{gate.SettingsFile: test.settings, gate.RecordKeyFile: test.key, "env/extravars": content} {
				if content != "" {
					apiserver.Must(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600))
				}
			}
			f, err := ReadFiles(Call{Dir: dir})
			if test.want == "" {
				apiserver.Must(t, err)
				if f.Kind.Plural != "regions" || f.Namespace != "team" || f.Name != "one" || f.Event != gate.EventCreate {
					t.Errorf("got %+v", f)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestEndpointVariablesStayInTheirFolder(t *testing.T) {
	dir := t.TempDir()
	f := &Files{EndpointsDir: filepath.Join(dir, "endpoints")}
	apiserver.Must(t, os.Mkdir(f.EndpointsDir, 0o700))
	for _, path := range []string{"endpoints/lpar1_vars.yaml", "other_vars.yaml"} {
		apiserver.Must(t, os.WriteFile(filepath.Join(dir, path), []byte("a: b\n"), 0o600))
	}
	for name, want := range map[string]string{"lpar1": "a: b\n", "lpar2": "", "": "", "../other": "", "../endpoints/lpar1": ""} {
		got, err := f.EndpointVariables(name)
		if err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
