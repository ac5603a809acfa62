package runner

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/process"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestCheckModeIsHandedOver(t *testing.T) {
	const script = writeReport + `report '{"ended": "successful", "host": "'"$#: $* $ZOSCB_SKIPPED_MODULES"'"}'`
	const call = "run DIR -p /entry.yml -i 42"
	for name, tc := range map[string]struct {
		checking, diff bool
		want           string
	}{
		"a run":                        {false, true, "6: " + call},
		"a check":                      {true, false, "7: " + call + " --cmdline=--check a.b.c,d"},
		"a check that shows its diffs": {true, true, "7: " + call + " --cmdline=--check --diff a.b.c,d"},
	} {
		r := newPlay(t, script)
		r.checking, r.files.Kind.ShowDiff, r.files.Settings.DriftCheckSkipModules = tc.checking, tc.diff, []string{"a.b.c", "d"}
		report, outcome := r.playLocked(t)
		if got := strings.TrimSpace(strings.ReplaceAll(report.Host, r.call.Dir, "DIR")); got != tc.want || !outcome.Succeeded() {
			t.Errorf("%s: %s: %q, want %q", name, outcome, got, tc.want)
		}
	}
}

func TestOutputOfAQuietRun(t *testing.T) {
	reader, writer, err := os.Pipe()
	apiserver.Must(t, err)
	r := newPlay(t, `echo "-secret"; echo "+secret" >&2; exit 3`)
	r.out = &process.Output{File: writer, Quiet: true}
	report, outcome := r.playLocked(t)
	r.out.Note("a note")
	apiserver.Must(t, writer.Close())
	log, err := io.ReadAll(reader)
	apiserver.Must(t, err)
	if outcome != gate.OutcomeFailed || strings.Contains(report.Messages(), "secret") {
		t.Errorf("%s: %s", outcome, report.Messages())
	}
	if text := string(log); strings.Contains(text, "secret") || !strings.Contains(text, `"line":"gate: a note"`) {
		t.Errorf("log: %s", text)
	}
}

func TestWritesAreRepeated(t *testing.T) {
	secrets := corev1.Resource("secrets")
	for name, tc := range map[string]struct {
		errs  []error
		calls int
		fails bool
	}{
		"at once":          {[]error{nil}, 1, false},
		"after a time":     {[]error{errors.New("away"), apierrors.NewConflict(secrets, "s", nil), nil}, 3, false},
		"an error of ours": {[]error{apierrors.NewForbidden(secrets, "s", nil), nil}, 1, true},
	} {
		r := newPlay(t, "")
		r.intervals = Intervals{Persist: time.Minute, PersistRetry: time.Millisecond, PersistMaxRetry: time.Millisecond}
		calls := 0
		err := recorder{r.scope}.repeat(t.Context(), "later", func() error {
			calls++
			return tc.errs[calls-1]
		})
		if calls != tc.calls || (err != nil) != tc.fails {
			t.Errorf("%s: %d calls, %v", name, calls, err)
		}
	}
}
