package runner

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestCallsOfAnsibleOperator(t *testing.T) {
	tests := map[string]struct {
		args string
		want call
		bad  bool
	}{
		"usual":      {args: "run /d --rotate-artifacts 20 -p /p.yml -i 42", want: call{"/d", "/p.yml", "42"}},
		"verbose":    {args: "run /d --rotate-artifacts 20 -p /p.yml -i 42 -vvv", want: call{"/d", "/p.yml", "42"}},
		"negative":   {args: "run /d --rotate-artifacts -1 -p /p.yml -i 42", want: call{"/d", "/p.yml", "42"}},
		"a role":     {args: "run /d --rotate-artifacts 20 --role r -i 42", bad: true},
		"no ident":   {args: "run /d -p /p.yml", bad: true},
		"no value":   {args: "run /d -p /p.yml -i", bad: true},
		"no folder":  {args: "run -p /p.yml -i 42", bad: true},
		"two folder": {args: "run /d /e -p /p.yml -i 42", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseCall(strings.Fields(test.args))
			if (err != nil) != test.bad || got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 8, 7, 0, time.UTC)
	tests := map[string]struct {
		answer answer
		event  string
		period string
	}{
		"done":        {answer: answer{done: true}, event: "playbook_on_stats"},
		"nothing due": {answer: askAgain(0), event: "runner_on_ok", period: "0s"},
		"soon":        {answer: askAgain(time.Millisecond), event: "runner_on_ok", period: "1s"},
		"seconds":     {answer: askAgain(29*time.Second + time.Nanosecond), event: "runner_on_ok", period: "30s"},
		"in the past": {answer: askAgain(-time.Hour), event: "runner_on_ok", period: "0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := test.answer.event(now)
			res, _ := e.Data["res"].(map[string]any)
			if e.Event != test.event || text(res["period"]) != test.period || e.UUID == "" || e.Created != "2026-11-22T09:08:07.000000" {
				t.Errorf("got %+v", e)
			}
			if test.period != "" && e.Data["task_action"] != "operator_sdk.util.requeue_after" {
				t.Errorf("task_action is %v", e.Data["task_action"])
			}
		})
	}
}

func TestArtifactsLimit(t *testing.T) {
	for annotation, want := range map[string]int{"": 7, "3": 3, "0": 1, "-5": 1, "100": 20, "1.5": 7, "99999999999999999999": 7} {
		if got := artifactsLimit(annotation, 7); got != want {
			t.Errorf("%q: got %d, want %d", annotation, got, want)
		}
	}
}

func TestArtifactsOfSkippedCalls(t *testing.T) {
	a := artifacts(filepath.Join(t.TempDir(), "artifacts"))
	names := func() []string {
		entries, err := os.ReadDir(string(a))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	apiserver.Must(t, a.end("10")) // Nothing ran yet.
	if got := names(); got != nil {
		t.Errorf("without a run there is %v", got)
	}
	for i, run := range []string{"3", "1", "2"} { // From the oldest.
		apiserver.Must(t, os.Mkdir(filepath.Join(string(a), run), 0o700))
		at := time.Unix(int64(1000+i), 0)
		apiserver.Must(t, os.Chtimes(filepath.Join(string(a), run), at, at))
	}
	latest := filepath.Join(string(a), "latest")
	apiserver.Must(t, os.Symlink(filepath.Join(string(a), "gone"), latest))
	apiserver.Must(t, a.end("11"))
	apiserver.Must(t, a.end("12"))
	if got, want := names(), []string{"1", "12", "2", "3", "latest"}; !slices.Equal(got, want) {
		t.Errorf("after two skips: %v, want %v", got, want)
	}
	if target, err := os.Readlink(filepath.Join(string(a), "12")); err != nil || target != "2" {
		t.Errorf("the skipped call leads to %q, %v", target, err)
	}
	apiserver.Must(t, os.Remove(latest))
	apiserver.Must(t, os.Symlink(filepath.Join(string(a), "12"), latest)) // As ansible-operator does after the call.
	apiserver.Must(t, a.end("13"))
	if target, err := filepath.EvalSymlinks(latest); err != nil || filepath.Base(target) != "2" {
		t.Errorf("before ansible-operator changes it, latest leads to %q, %v", target, err)
	}
	apiserver.Must(t, a.rotate(2))
	apiserver.Must(t, a.removeLinks())
	if got, want := names(), []string{"1", "12", "2", "latest"}; !slices.Equal(got, want) {
		t.Errorf("after the rotation: %v, want %v", got, want)
	}
}

func TestOutcomeOfARunWithoutACleanReport(t *testing.T) {
	failures := []runstatus.Failure{{Message: "first"}}
	tests := map[string]struct {
		report  runstatus.Report
		problem string
		want    []string
	}{
		"no report":      {problem: "the run ended without a report", want: []string{"the run ended without a report"}},
		"invalid period": {report: runstatus.Report{Ended: "successful", RequeueAfter: "5 minutes"}, want: []string{`requeue_after: period "5 minutes" is not a duration such as 30s or 1h30m`}},
		"negative":       {report: runstatus.Report{Ended: "successful", RequeueAfter: "-1s"}, want: []string{`requeue_after: period "-1s" is not a duration such as 30s or 1h30m`}},
		"failed before":  {report: runstatus.Report{Failures: failures}, problem: "killed", want: []string{"first", "killed"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report, outcome := evaluate(test.report, test.problem)
			var got []string
			for _, failure := range report.Failures {
				got = append(got, failure.Message)
			}
			if outcome != gate.OutcomeFailed || !slices.Equal(got, test.want) {
				t.Errorf("%s: %q, want %q", outcome, got, test.want)
			}
		})
	}
}

func TestOutputHasTheResource(t *testing.T) {
	reader, writer, err := os.Pipe()
	apiserver.Must(t, err)
	o := &output{file: writer, line: outputLine{Run: "42"}}
	o.setResource("Region", "team", "one")
	lines := make(chan []outputLine)
	go func() {
		var got []outputLine
		scanner := bufio.NewScanner(reader)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			var line outputLine
			if json.Unmarshal(scanner.Bytes(), &line) == nil {
				got = append(got, line)
			}
		}
		lines <- got
	}()
	long := strings.Repeat("x", maxLineBytes)
	o.copyLines(strings.NewReader("PLAY\r\n\n\xffTASK\n" + long + "y\nend"))
	apiserver.Must(t, writer.Close())
	got := <-lines
	var texts []string
	for _, line := range got {
		texts = append(texts, line.Line)
		if _, err := time.Parse(time.RFC3339Nano, line.Time); err != nil {
			t.Error(err)
		}
		line.Time, line.Line = "", ""
		if diff := cmp.Diff(outputLine{Kind: "Region", Namespace: "team", Name: "one", Run: "42"}, line); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"PLAY", "", "?TASK", long, "y", "end"}, texts); diff != "" {
		t.Error(diff)
	}
	if want := []string{"PLAY", "?TASK", long, "y", "end"}; !slices.Equal(o.last, want) {
		t.Errorf("last lines %d", len(o.last))
	}
}

func TestEndpointVariablesStayInTheirFolder(t *testing.T) {
	dir := t.TempDir()
	f := &files{endpointsDir: filepath.Join(dir, "endpoints")}
	apiserver.Must(t, os.Mkdir(f.endpointsDir, 0o700))
	for _, path := range []string{"endpoints/lpar1_vars.yaml", "other_vars.yaml"} {
		apiserver.Must(t, os.WriteFile(filepath.Join(dir, path), []byte("a: b\n"), 0o600))
	}
	for name, want := range map[string]string{"lpar1": "a: b\n", "lpar2": "", "": "", "../other": "", "../endpoints/lpar1": ""} {
		got, err := f.endpointVariables(name)
		if err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

func TestFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	apiserver.Must(t, os.WriteFile(path, nil, 0o600))
	apiserver.Must(t, os.Truncate(path, maxFileBytes))
	if content, err := readFile(path); err != nil || len(content) != maxFileBytes {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	apiserver.Must(t, os.Truncate(path, maxFileBytes+1))
	if _, err := readFile(path); err == nil {
		t.Error("a larger file was read")
	}
}

func TestJournal(t *testing.T) {
	j := journal{dir: t.TempDir()}
	if e, err := j.read("a"); e != nil || err != nil {
		t.Fatalf("read %v, %v of an empty journal", e, err)
	}
	apiserver.Must(t, j.remove("a"))
	want := journalEntry{
		UID: "a", Generation: 3, Run: runstatus.Run{ID: "42"}, Decision: gate.Decision{Attempt: 2},
		Input: gate.Input{Settings: &gate.Settings{MaxRetries: 5}, UID: "a", Period: time.Hour},
	}
	apiserver.Must(t, j.write(want))
	apiserver.Must(t, j.write(journalEntry{UID: "b"}))
	got, err := j.read("a")
	apiserver.Must(t, err)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	apiserver.Must(t, j.remove("a"))
	if e, err := j.read("a"); e != nil || err != nil {
		t.Errorf("read %v, %v after it was removed", e, err)
	}
}

func TestPreparedFolder(t *testing.T) {
	r := newPlay(t, "")
	r.files = &files{
		kind:  gate.KindSettings{Variables: []gate.Variable{{Name: "title"}}},
		given: map[string]any{"title": "a", "pyz": "b", "k8s_cr_kind": "Region"},
	}
	apiserver.Must(t, os.MkdirAll(filepath.Join(r.call.dir, "env"), 0o700))
	apiserver.Must(t, os.WriteFile(settingsFile(r.call.dir), []byte(`{"runner_http_url": "/s", "runner_http_path": "/events/", "other": 1}`), 0o600))
	apiserver.Must(t, os.WriteFile(r.reportFile(), []byte(`{"ended": "successful"}`), 0o600))
	apiserver.Must(t, os.WriteFile(optionsFile(r.call.dir), []byte("--check --diff"), 0o600))
	apiserver.Must(t, r.prepareFolder(gate.NewSupply(r.files.kind, nil, gate.Set{}, false), nil))
	for path, want := range map[string]string{
		settingsFile(r.call.dir):  `{"other":1}`,
		extraVarsFile(r.call.dir): `"title":{"__ansible_unsafe":"a"}`,
	} {
		if content, err := os.ReadFile(path); err != nil || !strings.Contains(string(content), want) || strings.Contains(string(content), "pyz") {
			t.Errorf("%s: %s, %v", path, content, err)
		}
	}
	for _, path := range []string{r.reportFile(), optionsFile(r.call.dir)} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s of a former run is still there: %v", path, err)
		}
	}
}
