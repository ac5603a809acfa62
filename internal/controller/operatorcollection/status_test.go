package operatorcollection

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestNotInstalled(t *testing.T) {
	soc := func(name string, generation, observed int64, err error) v2beta2.SubOperatorConfig {
		s := v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
		status.SetReady(&s.Status.Conditions, observed, err, "runs")
		return s
	}
	waits := status.Waiting(v2beta2.ReasonEndpointNotFound, time.Second, "no endpoint")
	with := func(s v2beta2.SubOperatorConfig, digest string, installed ...string) v2beta2.SubOperatorConfig {
		s.Status.Digest = digest
		for _, archive := range installed {
			s.Status.Installations = append(s.Status.Installations, v2beta2.InstallationStatus{Digest: archive})
		}
		return s
	}
	for name, test := range map[string]struct {
		socs   []v2beta2.SubOperatorConfig
		reason string
		text   string
	}{
		"none":                  {nil, v2beta2.ReasonNotInstalled, "create one"},
		"ready":                 {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "now")}, "", ""},
		"of another archive":    {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "former", "now")}, v2beta2.ReasonProgressing, `"a" has version`},
		"of an earlier manager": {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "", "now", "now")}, "", ""},
		"of an earlier manager, of another archive": {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "", "now", "former")}, v2beta2.ReasonProgressing, "upgraded"},
		"of an older spec":                          {[]v2beta2.SubOperatorConfig{soc("a", 2, 1, nil)}, v2beta2.ReasonProgressing, `"a" is being installed`},
		"new":                                       {[]v2beta2.SubOperatorConfig{{}}, v2beta2.ReasonProgressing, "is being installed"},
		"one of two fails":                          {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "now"), soc("b", 1, 1, waits)}, v2beta2.ReasonEndpointNotFound, `"b": no endpoint`},
	} {
		t.Run(name, func(t *testing.T) {
			f := status.AsError(notInstalled(test.socs, "now"))
			if f == nil {
				if test.reason != "" {
					t.Fatal("it says that all is well")
				}
				return
			}
			if f.Reason != test.reason || !strings.Contains(f.Error(), test.text) || f.Stalled {
				t.Errorf("got %s: %v, stalled %v", f.Reason, f, f.Stalled)
			}
		})
	}
}

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
