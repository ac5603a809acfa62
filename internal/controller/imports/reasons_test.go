package imports

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/project"
)

func TestArchiveReason(t *testing.T) {
	wanted := map[archive.Reason]string{
		archive.NotGzip: v2beta2.ReasonArchiveNotGzip, archive.NotTar: v2beta2.ReasonArchiveNotGzip,
		archive.Empty: v2beta2.ReasonArchiveCorrupt, archive.Truncated: v2beta2.ReasonArchiveTruncated,
		archive.Corrupt: v2beta2.ReasonArchiveCorrupt, archive.TrailingData: v2beta2.ReasonArchiveCorrupt,
		archive.PathEscapes: v2beta2.ReasonArchiveUnsafe, archive.InvalidName: v2beta2.ReasonArchiveUnsafe,
		archive.UnsafeLink: v2beta2.ReasonArchiveUnsafe, archive.UnsupportedEntry: v2beta2.ReasonArchiveUnsafe,
		archive.DuplicateEntry: v2beta2.ReasonArchiveUnsafe, archive.TooLarge: v2beta2.ReasonArchiveTooLarge,
		archive.TooManyEntries: v2beta2.ReasonArchiveTooLarge, archive.TooDeep: v2beta2.ReasonArchiveTooLarge,
		archive.NameTooLong: v2beta2.ReasonArchiveTooLarge,
	}
	for _, reason := range project.ConstantsOfType(t, "internal/source/archive", "Reason") {
		f := status.AsError(LoadFailure(fmt.Errorf("loading: %w", &archive.Error{Reason: archive.Reason(reason), Err: errors.New("x")})))
		if archive.Reason(reason) == archive.Unreadable {
			if f.Reason != v2beta2.ReasonStorageFailed || f.Stalled {
				t.Errorf("a file that cannot be read may be fine: got %+v", f)
			}
			continue
		}
		if want, known := wanted[archive.Reason(reason)]; !known || f.Reason != want || !f.Stalled {
			t.Errorf("%s: got %s, stalled %v, want %q", reason, f.Reason, f.Stalled, want)
		}
	}
}

func TestProblemReason(t *testing.T) {
	problem := func(rule string) findings.Problem {
		return findings.Problem{File: "operator-config.yml", Path: "resources[0]", Rule: rule, Message: rule, Severity: findings.SeverityError, Refused: true}
	}
	warning, lesser := problem("unknown-key"), problem("default-type")
	warning.Severity, warning.Refused, lesser.Refused = findings.SeverityWarning, false, false
	for name, test := range map[string]struct {
		problems findings.Problems
		want     string
	}{
		"one with a reason":            {findings.Problems{problem("missing-playbook")}, v2beta2.ReasonPlaybookMissing},
		"two that share it":            {findings.Problems{problem("missing-playbook"), problem("missing-finalizer")}, v2beta2.ReasonPlaybookMissing},
		"two that do not":              {findings.Problems{problem("missing-playbook"), problem("yaml")}, v2beta2.ReasonInvalidCollection},
		"one without":                  {findings.Problems{problem("kind-name")}, v2beta2.ReasonInvalidCollection},
		"a warning has no say, before": {findings.Problems{warning, problem("missing-playbook")}, v2beta2.ReasonPlaybookMissing},
		"what is not refused neither":  {findings.Problems{lesser, problem("missing-playbook")}, v2beta2.ReasonPlaybookMissing},
		"a warning has no say, after":  {findings.Problems{problem("yaml"), warning}, v2beta2.ReasonInvalidYAML},
	} {
		t.Run(name, func(t *testing.T) {
			f := status.AsError(LoadFailure(fmt.Errorf("loading: %w", test.problems)))
			if f.Reason != test.want || !f.Stalled {
				t.Errorf("got %s, stalled %v", f.Reason, f.Stalled)
			}
			if !strings.Contains(f.Error(), "operator-config.yml: resources[0]: ") {
				t.Errorf("the message names no file and field: %s", f.Error())
			}
		})
	}
}

// A rule that was renamed over there would silently lose its reason here.
func TestProblemReasonsName(t *testing.T) {
	refused := map[string]bool{}
	for _, rule := range slices.Concat(findings.AllRules(), model.Rules()) {
		refused[rule.Name] = rule.Refused
	}
	for rule := range problemReasons {
		if !refused[rule] {
			t.Errorf("there is no rule %q on which it refuses", rule)
		}
	}
}
