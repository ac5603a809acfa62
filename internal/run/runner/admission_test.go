package runner

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func TestTickets(t *testing.T) {
	all := newTickets(t.TempDir(), DefaultIntervals())
	behind := func(uid types.UID, since time.Time) ahead {
		t.Helper()
		n, err := all.ahead("host:22", uid, ticket{Since: since, Endpoint: "lpar1"}, now)
		apiserver.Must(t, err)
		return n
	}
	if n := behind("a", now); n != (ahead{}) {
		t.Fatalf("%v are ahead without tickets", n)
	}
	for uid, content := range map[types.UID]ticket{
		"b": {Since: now.Add(-time.Minute), Next: now.Add(time.Minute), Shared: true},
		"c": {Since: now.Add(-time.Minute), Next: now.Add(-all.grace), Shared: true},
		"d": {Since: now.Add(-time.Minute), Next: now.Add(-all.grace - time.Millisecond), Shared: true},
		"e": {Since: now.Add(-time.Minute), Next: now.Add(time.Minute), Endpoint: "lpar2"},
		"f": {Since: now, Next: now.Add(time.Minute), Endpoint: "lpar1"},
		"g": {Since: now.Add(time.Second), Next: now.Add(time.Minute), Shared: true},
		"h": {Since: now.Add(-time.Minute), Next: now.Add(-all.lifetime - time.Millisecond), Shared: true},
	} {
		apiserver.Must(t, all.write("host:22", uid, content))
	}
	apiserver.Must(t, all.write("other:22", "b", ticket{Since: now.Add(-time.Minute), Next: now.Add(time.Minute), Shared: true}))
	apiserver.Must(t, os.WriteFile(filepath.Join(filepath.Dir(all.path("host:22", "b")), ".new-1"), nil, 0o600))
	apiserver.Must(t, os.WriteFile(all.path("host:22", "i"), []byte("{"), 0o600))
	for uid, want := range map[types.UID]ahead{"a": {shared: 2}, "b": {shared: 1}, "f": {shared: 2}, "z": {shared: 2, endpoint: 1}} {
		if n := behind(uid, now); n != want {
			t.Errorf("%v are ahead of %s, want %v", n, uid, want)
		}
	}
	for name, uid := range map[string]types.UID{"that nobody uses": "h", "that cannot be read": "i"} {
		if _, err := os.Stat(all.path("host:22", uid)); !os.IsNotExist(err) {
			t.Errorf("the ticket %s is still there: %v", name, err)
		}
	}

	apiserver.Must(t, all.remove("b", "other:22"))
	if n := behind("a", now); n != (ahead{shared: 1}) {
		t.Errorf("%v are ahead after a ticket was removed", n)
	}
	if own := all.read("other:22", "b"); own.Since.IsZero() {
		t.Errorf("the other ticket is %+v", own)
	}
	apiserver.Must(t, all.remove("b", ""))
	if own := all.read("other:22", "b"); !own.Since.IsZero() {
		t.Errorf("the other ticket is %+v", own)
	}
	apiserver.Must(t, all.remove("b", ""))
}

func TestWaitingSince(t *testing.T) {
	status, own := now.Add(-time.Minute), now.Add(-time.Hour)
	for name, tc := range map[string]struct {
		times []time.Time
		want  time.Time
	}{
		"new":                      {nil, now},
		"status and ticket":        {[]time.Time{status, own}, status},
		"ticket alone":             {[]time.Time{{}, own}, own},
		"the clock was ahead":      {[]time.Time{now.Add(time.Hour), own}, own},
		"both clocks were ahead":   {[]time.Time{now.Add(time.Hour), now.Add(time.Minute)}, now},
		"seconds, as status has":   {[]time.Time{status.Add(time.Millisecond)}, status},
		"a later part of a second": {[]time.Time{now.Add(time.Millisecond)}, now},
	} {
		if got := waitingSince(now.Add(999*time.Millisecond), tc.times...); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestLogons(t *testing.T) {
	f := &files{endpointsDir: t.TempDir(), namespace: "zos"}
	write := func(name, content string) {
		apiserver.Must(t, os.WriteFile(filepath.Join(f.endpointsDir, name), []byte(content), 0o600))
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
		l, err := f.logon(name)
		apiserver.Must(t, err)
		if l == nil || l.user != user {
			t.Fatalf("%s: %+v", name, l)
		}
		want := "id-of-" + name
		if slices.Contains([]string{"local", "refused", "bare"}, name) {
			want = ""
		}
		if l.credential != want {
			t.Errorf("%s: credential %q", name, l.credential)
		}
		if l.unknown != (name == "bare") {
			t.Errorf("%s: an unknown credential is %t", name, l.unknown)
		}
	}
	if l, err := f.logon("long"); err != nil || len(l.credential) != maxCredential {
		t.Errorf("%+v, %v", l, err)
	}
	if _, err := f.logon("longer"); err == nil {
		t.Error("a file that is too long was read")
	}
	for _, name := range []string{"absent", "", "../x", "x/y"} {
		if l, err := f.logon(name); l != nil || err != nil {
			t.Errorf("%q: %+v, %v", name, l, err)
		}
	}
	if _, err := f.logon("broken"); err == nil {
		t.Error("variables that are not JSON were read")
	}
}

func TestNamespaceOfEndpoints(t *testing.T) {
	f := &files{endpointsDir: t.TempDir(), namespace: "team"}
	path := filepath.Join(f.endpointsDir, gate.EndpointsNamespaceFile)
	for content, want := range map[string]string{"": "team", "zos": "zos", "zos\n": "zos"} {
		apiserver.Must(t, os.WriteFile(path, []byte(content), 0o600))
		if got, err := f.endpointsNamespace(); got != want || err != nil {
			t.Errorf("%q: %q, %v", content, got, err)
		}
	}
	apiserver.Must(t, os.Remove(path))
	if got, err := f.endpointsNamespace(); got != "team" || err != nil {
		t.Errorf("without the file: %q, %v", got, err)
	}
}

// The state comes from all operators of a namespace: no resource in it leads out of the folder of this one.
func TestEndedRuns(t *testing.T) {
	dir := t.TempDir()
	r := &runner{
		call:  call{dir: filepath.Join(dir, "Job/zos/own")},
		files: &files{kindName: "Job", namespace: "zos", name: "own", settings: &gate.Settings{Kinds: map[string]gate.KindSettings{"Job": {}, "Queue": {}}}},
	}
	for _, folder := range []string{"Job/zos/own", "Job/zos/free", "Queue/zos/busy", "Job/other/busy", "Else/zos/busy"} {
		apiserver.Must(t, os.MkdirAll(filepath.Join(dir, folder), 0o700))
	}
	for _, folder := range []string{"Job/zos/own", "Queue/zos/busy", "Job/other/busy", "Else/zos/busy", "."} {
		lock, err := lockFolder(filepath.Join(dir, folder))
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

// What a run got is released by the next process of the pod if its own ends before it.
func TestPlaceInTheJournal(t *testing.T) {
	j := journal{dir: t.TempDir()}
	want := place{Namespace: "zos", Secret: "s", User: "u", Credential: "c", Settings: endpoint.Settings{Name: "lpar1", Address: "host:22", MaxRuns: 4}}
	apiserver.Must(t, j.write(journalEntry{UID: "a", Decision: gate.Decision{Canary: true}, Place: &want, Run: runstatus.Run{ID: "42"}}))
	got, err := j.read("a")
	apiserver.Must(t, err)
	if got.Place == nil || got.Place.Settings.Address != "host:22" || got.Place.Credential != "c" || !got.Decision.Canary {
		t.Errorf("got %+v", got.Place)
	}
}

func TestRunsThatNeedNoPlace(t *testing.T) {
	r := newPlay(t, "")
	apiserver.Must(t, r.release(t.Context(), nil, "42", runstatus.Report{Connection: endpoint.ConnectionRefused}))
	(&observer{runner: r}).again(t.Context())
}

// A gate that ends before its run leaves to the next one what the state has been told.
func TestWhatWasToldIsInTheJournal(t *testing.T) {
	j := journal{dir: t.TempDir()}
	p := &place{Resource: "a", Admitted: now, Reported: endpoint.ConnectionAccepted}
	apiserver.Must(t, j.updatePlace(p))
	if got, err := j.read("a"); got != nil || err != nil {
		t.Errorf("a check has no entry: %+v, %v", got, err)
	}
	apiserver.Must(t, j.write(journalEntry{UID: "a", Place: &place{Resource: "a"}, Run: runstatus.Run{ID: "42"}}))
	apiserver.Must(t, j.updatePlace(p))
	got, err := j.read("a")
	apiserver.Must(t, err)
	if got.Place.Reported != endpoint.ConnectionAccepted || !got.Place.Admitted.Equal(now) || got.Run.ID != "42" {
		t.Errorf("%+v, place %+v", got, got.Place)
	}
}

func TestEndOfAPlace(t *testing.T) {
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
		p := &place{Settings: e, Admitted: admitted, Canary: tc.canary, Reported: tc.told}
		request := endpoint.Request{Now: now.Add(-time.Minute), Admitted: admitted, User: "u", Credential: "c"}
		p.end(s, request, runstatus.Report{Connection: tc.learned})
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
	r := newPlay(t, "")
	p := &place{User: "u", Admitted: now}
	if got := r.requestOf(p, "42"); !got.Observed.IsZero() || !got.Admitted.Equal(now) || got.User != "u" {
		t.Errorf("without a report: %+v", got)
	}
	apiserver.Must(t, os.MkdirAll(filepath.Dir(r.reportFile()), 0o700))
	apiserver.Must(t, os.WriteFile(r.reportFile(), []byte("{}"), 0o600))
	apiserver.Must(t, os.Chtimes(r.reportFile(), now, now))
	// A run can lose the connection and get it back: its own outage is over then.
	p.Reported, p.ToldAt = endpoint.ConnectionUnreachable, now.Add(time.Minute)
	if got := r.requestOf(p, "42"); !got.Admitted.Equal(p.ToldAt) {
		t.Errorf("after it has told that: %+v", got)
	}
	if got := r.requestOf(p, "42"); !got.Observed.Equal(now) {
		t.Errorf("the report was written at %s", got.Observed)
	}
}
