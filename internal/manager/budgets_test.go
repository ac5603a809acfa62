package manager

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestBudgetSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		flags []string
		// problem is in the error, or "" if the settings are valid.
		problem string
	}{
		"default":                   {},
		"greater":                   {flags: []string{"--max-kinds=9000", "--max-kinds-per-namespace=9000", "--max-stored-bytes=1Ti"}},
		"without effect":            {flags: []string{"--max-collections=10", "--max-stored-bytes-per-namespace=1Gi", "--leader-elect-retry-period=0s", "--serving-ca-overlap=1m"}},
		"no room":                   {flags: []string{"--max-workers-per-namespace=0"}, problem: "--max-workers-per-namespace must be at least 1"},
		"more for one than for all": {flags: []string{"--max-downloads-per-namespace=33"}, problem: "--max-downloads at least that"},
		"more for one client":       {flags: []string{"--max-archive-connections=10"}, problem: "--max-archive-connections-per-client"},
		"one version":               {flags: []string{"--max-crd-versions=1"}, problem: "--max-crd-versions at least 2"},
	} {
		t.Run(name, func(t *testing.T) {
			var s options
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			s.addFlags(flags)
			if err := flags.Parse(append(tt.flags, "--runtime-image=x", "--artifact-url=http://x")); err != nil {
				t.Fatal(err)
			}
			err := s.validate()
			if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestBudgetsOfTheEnvironment(t *testing.T) {
	s, err := parse(t, map[string]string{
		"COLLECTION_OPERATOR_MAX_STORED_BYTES": "8Gi", "COLLECTION_OPERATOR_MAX_KINDS": "3000",
	}, "--max-kinds=4000")
	if got := s.budgets.ofCollections(); err != nil || got.StoredBytes != 8<<30 || got.Kinds.Total != 4000 || got.CRDVersions != 50 {
		t.Errorf("got %d, %+v, error %v", got.StoredBytes, got.Kinds, err)
	}
}
