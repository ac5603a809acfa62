package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestPreparedFolder(t *testing.T) {
	r := newPlay(t, "")
	r.files = &podfiles.Files{
		Kind:  gate.KindSettings{Variables: []gate.Variable{{Name: "title"}}},
		Given: map[string]any{"title": "a", "pyz": "b", "k8s_cr_kind": "Region"},
	}
	apiserver.Must(t, os.MkdirAll(filepath.Join(r.call.Dir, "env"), 0o700))
	apiserver.Must(t, os.WriteFile(r.call.SettingsFile(), []byte(`{"runner_http_url": "/s", "runner_http_path": "/events/", "other": 1}`), 0o600))
	apiserver.Must(t, os.WriteFile(r.call.ReportFile(), []byte(`{"ended": "successful"}`), 0o600))
	apiserver.Must(t, os.WriteFile(r.call.OptionsFile(), []byte("--check --diff"), 0o600))
	apiserver.Must(t, prepareFolder(r.scope, gate.NewSupply(r.files.Kind, nil, gate.Set{}, false), nil))
	for path, want := range map[string]string{
		r.call.SettingsFile():  `{"other":1}`,
		r.call.ExtraVarsFile(): `"title":{"__ansible_unsafe":"a"}`,
	} {
		if content, err := os.ReadFile(path); err != nil || !strings.Contains(string(content), want) || strings.Contains(string(content), "pyz") {
			t.Errorf("%s: %s, %v", path, content, err)
		}
	}
	for _, path := range []string{r.call.ReportFile(), r.call.OptionsFile()} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s of a former run is still there: %v", path, err)
		}
	}
}
