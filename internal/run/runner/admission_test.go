package runner

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// The state comes from all operators of a namespace: no resource in it leads out of the folder of this one.
func TestEndedRuns(t *testing.T) {
	dir := t.TempDir()
	r := endpoints{&scope{
		call:  podfiles.Call{Dir: filepath.Join(dir, "Job/zos/own")},
		files: &podfiles.Files{KindName: "Job", Namespace: "zos", Name: "own", Settings: &gate.Settings{Kinds: map[string]gate.KindSettings{"Job": {}, "Queue": {}}}},
	}}
	for _, folder := range []string{"Job/zos/own", "Job/zos/free", "Queue/zos/busy", "Job/other/busy", "Else/zos/busy"} {
		apiserver.Must(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	for _, folder := range []string{"Job/zos/own", "Queue/zos/busy", "Job/other/busy", "Else/zos/busy", "."} {
		lock, err := podfiles.LockFolder(filepath.Join(dir, folder))
		if lock == nil {
			t.Fatal(err)
		}
		defer lock.Close()
	}
	for resource, want := range map[string]bool{
		"Job/zos/own": true, "Job/zos/free": true, "Job/zos/absent": true, "Queue/zos/busy": false,
		"Job/other/busy": true, "Else/zos/busy": true, "Job/zos/../..": true, "Job/zos/..": true, "": true, "Queue/zos": true,
	} {
		if got := r.runEnded(resource); got != want {
			t.Errorf("%q: %t", resource, got)
		}
	}
}

func TestStateSecret(t *testing.T) {
	secret := func(state string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{
			endpoint.StateFile: base64.StdEncoding.EncodeToString([]byte(state)),
		}}}
	}
	if got, err := parseState(secret(`{"retries":{"lpar1":"now"}}`)); err != nil || got.Retries["lpar1"] != "now" {
		t.Errorf("%+v, %v", got, err)
	}
	for name, object := range map[string]*unstructured.Unstructured{
		"no data": {Object: map[string]any{}}, "no state": secret(""), "no JSON": secret("x"),
		"no base64": {Object: map[string]any{"data": map[string]any{endpoint.StateFile: "%"}}},
	} {
		if _, err := parseState(object); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRunsThatNeedNoSlot(t *testing.T) {
	r := newPlay(t, "")
	apiserver.Must(t, endpoints{r.scope}.release(t.Context(), nil, "42", runstatus.Report{Connection: endpoint.ConnectionRefused}))
	(&observer{play: r}).again(t.Context())
}

func TestEndOfASlot(t *testing.T) {
	e := endpoint.Settings{Name: "lpar1", Address: "host:22"}
	for name, tc := range map[string]struct {
		told, learned endpoint.Connection
		canary        bool
		refused       bool
		nextTry       time.Time
	}{
		"nothing new":               {endpoint.ConnectionAccepted, endpoint.ConnectionAccepted, false, true, now},
		"not told yet":              {endpoint.ConnectionNone, endpoint.ConnectionAccepted, false, false, time.Time{}},
		"another thing":             {endpoint.ConnectionRefused, endpoint.ConnectionAccepted, false, false, time.Time{}},
		"it did not connect":        {endpoint.ConnectionNone, endpoint.ConnectionNone, false, true, now},
		"nor did a canary":          {endpoint.ConnectionNone, endpoint.ConnectionNone, true, true, now.Add(-time.Minute)},
		"a canary's report is lost": {endpoint.ConnectionUnreachable, endpoint.ConnectionNone, true, true, now},
	} {
		admitted := now.Add(-5 * time.Minute)
		s := &endpoint.State{
			Systems: map[string]*endpoint.System{"host:22": {Outage: &endpoint.Outage{Since: admitted.Add(-time.Hour), NextTry: now}}},
			Logons:  map[string]*endpoint.Logon{"u": {Refused: map[string]endpoint.Refusal{"c": {At: admitted.Add(-time.Hour)}}}},
		}
		p := &podfiles.Slot{Settings: e, Admitted: admitted, Canary: tc.canary, Reported: tc.told}
		request := endpoint.Request{Now: now.Add(-time.Minute), Admitted: admitted, User: "u", Credential: "c"}
		endSlot(p, s, request, runstatus.Report{Connection: tc.learned})
		nextTry := time.Time{}
		if outage := s.Systems["host:22"].Outage; outage != nil {
			nextTry = outage.NextTry
		}
		if _, refused := s.Logons["u"].Refused["c"]; refused != tc.refused || !nextTry.Equal(tc.nextTry) {
			t.Errorf("%s: refused %v, next try %s", name, refused, nextTry)
		}
	}
}

func TestTimeOfAnObservation(t *testing.T) {
	r := endpoints{newPlay(t, "").scope}
	p := &podfiles.Slot{User: "u", Admitted: now}
	if got := r.requestOf(p, "42"); !got.Observed.IsZero() || !got.Admitted.Equal(now) || got.User != "u" {
		t.Errorf("without a report: %+v", got)
	}
	apiserver.Must(t, os.MkdirAll(filepath.Dir(r.call.ReportFile()), 0o700))
	apiserver.Must(t, os.WriteFile(r.call.ReportFile(), []byte("{}"), 0o600))
	apiserver.Must(t, os.Chtimes(r.call.ReportFile(), now, now))
	// A run can lose the connection and get it back: its own outage is over then.
	p.Reported, p.ToldAt = endpoint.ConnectionUnreachable, now.Add(time.Minute)
	if got := r.requestOf(p, "42"); !got.Admitted.Equal(p.ToldAt) {
		t.Errorf("after it has told that: %+v", got)
	}
	if got := r.requestOf(p, "42"); !got.Observed.Equal(now) {
		t.Errorf("the report was written at %s", got.Observed)
	}
}
