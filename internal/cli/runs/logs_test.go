package runs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
