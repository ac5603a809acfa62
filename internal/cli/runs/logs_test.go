package runs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

func TestRunFilter(t *testing.T) {
	const mine = `{"time":"2026-11-22T09:10:00Z","kind":"DataFile","namespace":"zos","name":"hello","run":"two","line":`
	log := strings.Join([]string{
		`{"level":"info","msg":"ansible-operator's own line"}`,
		`not JSON`,
		mine + `"PLAY [all]"}`,
		strings.Replace(mine, "two", "one", 1) + `"another run"}`,
		strings.Replace(mine, "hello", "other", 1) + `"another resource"}`,
		strings.Replace(mine, "DataFile", "FileCopy", 1) + `"another kind"}`,
		strings.Replace(mine, "zos", "prod", 1) + `"another namespace"}`,
		mine + `"` + strings.Repeat("x", 3*maxLogLine) + `"}`,
		mine + `"\u001b[0;32mok: [lpar1]\u001b[0m\ttab\r"}`,
		mine + `"\u001b]0;title\u0007 \u009b2J\u0008 a\nb"}`,
		mine + `"last, without an end of line"}`,
	}, "\n")
	want := []string{
		"PLAY [all]", "ok: [lpar1]    tab", `\x1b]0;title\a \u009b2J\b a\nb`, "last, without an end of line",
	}
	for skip := range len(want) + 1 {
		var out bytes.Buffer
		filter := &runFilter{kind: "DataFile", namespace: "zos", name: "hello", run: "two", out: &out, skip: skip}
		if err := filter.copy(strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
		expected := ""
		if skip < len(want) {
			expected = strings.Join(want[skip:], "\n") + "\n"
		}
		if out.String() != expected || filter.printed != len(want) {
			t.Errorf("without the first %d: got %q and %d, want %q", skip, out.String(), filter.printed, expected)
		}
	}
}

func TestRunThatIsPrinted(t *testing.T) {
	run := func(reason gate.Reason, outcome gate.Outcome) *runstatus.Run {
		return &runstatus.Run{ID: "two", Reason: reason, Outcome: outcome}
	}
	past := []runstatus.RunSummary{{ID: "one"}}
	for name, test := range map[string]struct {
		last    *runstatus.Run
		history []runstatus.RunSummary
		follow  bool
		want    string
	}{
		"none":                   {nil, nil, false, ""},
		"it has ended":           {run(gate.ReasonRetry, gate.OutcomeFailed), past, false, "two"},
		"it runs":                {run(gate.ReasonChanged, ""), past, false, "two"},
		"a retry runs":           {run(gate.ReasonRetry, ""), past, false, "one"},
		"a retry that I follow":  {run(gate.ReasonRetry, ""), past, true, "two"},
		"a retry without a past": {run(gate.ReasonRetry, ""), nil, false, "two"},
	} {
		if got := lastRun(&runstatus.Status{LastRun: test.last, History: test.history}, test.follow); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestOutputThatStatusHas(t *testing.T) {
	failed := &runstatus.Status{LastRun: &runstatus.Run{ID: "two", Failure: &runstatus.Failure{Output: "IDC3012I\nnot found"}}}
	var out, problems bytes.Buffer
	command := &cobra.Command{}
	command.SetOut(&out)
	command.SetErr(&problems)
	if printFailed(command, failed, "one", "gone") || printFailed(command, &runstatus.Status{}, "", "gone") || out.Len()+problems.Len() > 0 {
		t.Errorf("another run: printed %q, %q", out.String(), problems.String())
	}
	if !printFailed(command, failed, "two", "the pod is gone") || out.String() != "IDC3012I\nnot found\n" ||
		problems.String() != "the pod is gone; the end of the output of the task that failed:\n" {
		t.Errorf("printed %q, %q", out.String(), problems.String())
	}
}

func TestNoOutput(t *testing.T) {
	start := metav1.NewTime(time.Date(2026, 11, 22, 9, 10, 0, 0, time.UTC))
	pod := func(age time.Duration) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", CreationTimestamp: metav1.NewTime(start.Add(-age))}}
	}
	for _, test := range []struct {
		pods    []corev1.Pod
		started *metav1.Time
		want    string
	}{
		{nil, &start, "the namespace has no pod of the operator"},
		{[]corev1.Pod{pod(time.Hour)}, nil, "status does not show a run with this ID"},
		{[]corev1.Pod{pod(-time.Hour)}, &start, "it started at 2026-11-22T09:10:00Z, and the operator's pod was replaced at 2026-11-22T10:10:00Z"},
		{[]corev1.Pod{pod(time.Hour)}, &start, "the run printed nothing yet, or the node has removed that part of the log"},
	} {
		if got := noOutput(test.pods, "two", test.started); !strings.HasSuffix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
