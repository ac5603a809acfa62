package runner

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/gate"
)

func TestCheckModeIsHandedOver(t *testing.T) {
	const script = writeReport + `[ "$#$8" = "8--check --diff" ] && [ "$*" = "run $(dirname "$0") -p /entry.yml -i 42 --cmdline --check --diff" ] && report '{"ended": "successful"}'`
	for name, checking := range map[string]bool{"a check": true, "a run": false} {
		r := newPlay(t, script)
		r.checking = checking
		if _, outcome := r.playLocked(t); outcome.Succeeded() != checking {
			t.Errorf("%s: %s", name, outcome)
		}
	}
}

func TestOutputOfAQuietRun(t *testing.T) {
	reader, writer, err := os.Pipe()
	must(t, err)
	r := newPlay(t, `echo "-secret"; echo "+secret" >&2; exit 3`)
	r.out = &output{file: writer, quiet: true}
	report, outcome := r.playLocked(t)
	r.out.note("a note")
	must(t, writer.Close())
	log, err := io.ReadAll(reader)
	must(t, err)
	if outcome != gate.OutcomeFailed || strings.Contains(messages(report), "secret") {
		t.Errorf("%s: %s", outcome, messages(report))
	}
	if text := string(log); strings.Contains(text, "secret") || !strings.Contains(text, `"line":"gate: a note"`) {
		t.Errorf("log: %s", text)
	}
}
