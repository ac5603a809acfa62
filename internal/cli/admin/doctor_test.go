package admin

import (
	"bytes"
	"errors"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/support/doctor"
)

// Scripts must not take a cluster for healthy that could not be looked at.
func TestDoctorFailsIfRequestsFailed(t *testing.T) {
	found := []doctor.Finding{{Object: doctor.Ref{Kind: "Secret", Name: "x"}}}
	for _, output := range []string{"text", "json"} {
		for name, test := range map[string]struct {
			report     doctor.Report
			isFindings bool
			isError    bool
		}{
			"clean":          {doctor.Report{Unread: []string{"you may not read pods"}}, false, false},
			"found":          {doctor.Report{Findings: found}, true, true},
			"failed":         {doctor.Report{Failed: 1, Unread: []string{"pods could not be read"}}, false, true},
			"found and fail": {doctor.Report{Failed: 1, Findings: found}, true, true},
		} {
			var out, messages bytes.Buffer
			err := printDoctor(&out, &messages, &test.report, output)
			if (err != nil) != test.isError || errors.Is(err, kit.ErrFindings) != test.isFindings {
				t.Errorf("%s, %s: %v", name, output, err)
			}
		}
	}
}
