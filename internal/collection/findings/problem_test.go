package findings

import "testing"

func TestProblemsSummary(t *testing.T) {
	problems := Problems{
		{File: "a", Line: 1, Column: 2, Path: "w", Message: "odd", Severity: SeverityWarning},
		{File: "a", Line: 2, Column: 1, Path: "x", Message: "bad", Severity: SeverityError},
		{File: "b", Message: "worse", Severity: SeverityError},
	}
	for limit, want := range map[int]string{
		-1: "and 3 more",
		1:  "a:2:1: x: bad\nand 2 more",
		5:  "a:2:1: x: bad\nb: worse\na:1:2: w: warning: odd",
	} {
		if got := problems.Summary(limit); got != want {
			t.Errorf("Summary(%d) = %q, want %q", limit, got, want)
		}
	}
	if got, want := problems.Error(), "a:1:2: w: warning: odd\na:2:1: x: bad\nb: worse"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got, want := problems[:1].Summary(3), "a:1:2: w: warning: odd"; got != want {
		t.Errorf("Summary of warnings = %q, want %q", got, want)
	}
}
