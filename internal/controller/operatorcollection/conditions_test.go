package operatorcollection

import (
	"slices"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestConformance(t *testing.T) {
	problem := func(severity findings.Severity) findings.Problem {
		return findings.Problem{File: "operator-config.yml", Message: "odd", Severity: severity}
	}
	for name, test := range map[string]struct {
		problems findings.Problems
		want     string
	}{
		"nothing":      {},
		"a hint":       {problems: findings.Problems{problem(findings.SeverityInfo)}},
		"a warning":    {findings.Problems{problem(findings.SeverityWarning)}, "operator-config.yml: warning: odd"},
		"errors first": {findings.Problems{problem(findings.SeverityWarning), problem(findings.SeverityError)}, "operator-config.yml: odd\noperator-config.yml: warning: odd"},
		"many": {slices.Repeat(findings.Problems{problem(findings.SeverityError)}, 30),
			strings.Repeat("operator-config.yml: odd\n", 9) + "and 21 more"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &model.Collection{Problems: test.problems}
			err := conformance(c)
			if test.want == "" {
				if err != nil || len(warnings(&v2beta2.OperatorCollection{}, &importScope{collection: c})) > 0 {
					t.Errorf("got %v", err)
				}
				return
			}
			if f := status.AsError(err); f == nil || f.Reason != v2beta2.ReasonRulesBroken || f.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
