package suite

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/scenario"
)

func TestCompare(t *testing.T) {
	status := map[string]any{
		"phase": "Succeeded", "size": int64(2), "ratio": 1.5, "zones": []any{"a", "b"}, "region": map[string]any{"name": "r", "ports": []any{int64(1)}},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "Failure", "status": "False"}},
	}
	for _, tt := range []struct {
		name     string
		expected map[string]any
		want     []difference
	}{
		{"nothing", nil, nil},
		{"an empty mapping", map[string]any{"region": map[string]any{}}, nil},
		{"parts", map[string]any{"size": 2.0, "zones": []any{"b"}, "region": map[string]any{"ports": []any{int64(1)}}}, nil},
		{"a condition", map[string]any{"conditions": []any{map[string]any{"type": "Failure"}}}, nil},
		{"other values", map[string]any{"phase": "Failed", "size": "2", "region": map[string]any{"name": nil}}, []difference{
			{"status.phase", `"Failed"`, `"Succeeded"`}, {"status.region.name", "null", `"r"`}, {"status.size", `"2"`, "2"},
		}},
		{"nothing there", map[string]any{"zone": "a", "region": map[string]any{"x": map[string]any{}}}, []difference{
			{"status.region.x", "{}", "nothing"}, {"status.zone", `"a"`, "nothing"},
		}},
		{"other types", map[string]any{"phase": []any{"a"}, "zones": map[string]any{"a": "b"}}, []difference{
			{"status.phase", `["a"]`, `"Succeeded"`}, {"status.zones", `{"a":"b"}`, `["a","b"]`},
		}},
		{"an item that is not there", map[string]any{"zones": []any{"c"}}, []difference{{"status.zones", `an item "c"`, `["a","b"]`}}},
	} {
		if diff := cmp.Diff(tt.want, compare(tt.expected, status, "status"), cmp.AllowUnexported(difference{})); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

var reported = []Result{
	{Scenario: scenario.Scenario{Name: "hello", File: scenario.Dir + "/hello.yaml"}, Steps: []Step{
		{Name: "unreachable", Skipped: "the endpoint is this machine, which always answers"},
		{Name: "creation", Took: 1234 * time.Millisecond, Summary: "Succeeded: ok 2, changed 1"},
		{Name: "idempotence", Took: time.Second, Expected: "a second run changes nothing", Got: "changed 1", Summary: "Succeeded", Output: "TASK [x] <\x1b[31m>\nchanged\n"},
	}},
	{Scenario: scenario.Scenario{Name: "other", File: scenario.Dir + "/other.yaml"}, Steps: []Step{
		{Name: "creation", Took: 500 * time.Millisecond, Err: errors.New("no Python\nat all")},
	}},
}

func TestJUnit(t *testing.T) {
	const want = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" errors="1" time="2.734">
  <testsuite name="hello" tests="3" failures="1" errors="0" skipped="1" time="2.234">
    <testcase name="unreachable" classname="acme.files.hello" file="extensions/collection-operator/hello.yaml" time="0.000">
      <skipped message="the endpoint is this machine, which always answers"></skipped>
    </testcase>
    <testcase name="creation" classname="acme.files.hello" file="extensions/collection-operator/hello.yaml" time="1.234"></testcase>
    <testcase name="idempotence" classname="acme.files.hello" file="extensions/collection-operator/hello.yaml" time="1.000">
      <failure message="expected: a second run changes nothing">expected:&#xA;a second run changes nothing&#xA;got:&#xA;changed 1</failure>
      <system-out>TASK [x] &lt;&gt;&#xA;changed&#xA;</system-out>
    </testcase>
  </testsuite>
  <testsuite name="other" tests="1" failures="0" errors="1" skipped="0" time="0.500">
    <testcase name="creation" classname="acme.files.other" file="extensions/collection-operator/other.yaml" time="0.500">
      <error message="no Python">no Python&#xA;at all</error>
    </testcase>
  </testsuite>
</testsuites>
`
	var b strings.Builder
	if err := WriteJUnit(&b, "acme.files", reported); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	done, failed := Count(reported)
	if done != 3 || strings.Join(failed, " ") != "hello/idempotence other/creation" || !HasErrors(reported) || HasErrors(reported[:1]) {
		t.Errorf("%d steps were done, %q failed", done, failed)
	}
}

func TestPrint(t *testing.T) {
	const want = `  skipped  unreachable    0.0 s  the endpoint is this machine, which always answers
  ok       creation       1.2 s  Succeeded: ok 2, changed 1
  FAILED   idempotence    1.0 s  Succeeded
      expected:
        a second run changes nothing
      got:
        changed 1
      output:
        TASK [x] <>
        changed
  ERROR    creation       0.5 s
      error:
        no Python
        at all
`
	var b strings.Builder
	for _, r := range reported {
		for _, s := range r.Steps {
			s.Print(&b)
		}
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestTheEndOfALongOutputIsKept(t *testing.T) {
	var all strings.Builder
	output := &tail{to: &all}
	line := strings.Repeat("x", 99) + "\n"
	for range maxOutput/len(line) + 10 {
		if n, err := output.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	text := output.String()
	if !strings.HasPrefix(text, "...\nx") || len(text) > maxOutput+4 || strings.TrimPrefix(text, "...\n") != strings.Repeat(line, strings.Count(text, "\n")-1) {
		t.Errorf("kept %d bytes that begin with %q", len(text), text[:10])
	}
	if all.Len() != (maxOutput/len(line)+10)*len(line) {
		t.Errorf("handed on %d bytes", all.Len())
	}
}
