package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestBudgetSettings(t *testing.T) {
	for name, tt := range map[string]struct {
		environment map[string]string
		flags       []string
		// problem is in the error, or "" if the settings are valid.
		problem string
	}{
		"default":                        {},
		"greater":                        {flags: []string{"--max-kinds=9000", "--max-kinds-per-namespace=9000", "--max-stored-bytes=1Ti"}},
		"from the environment":           {environment: map[string]string{"MAX_KINDS": "9000", "MAX_KINDS_PER_NAMESPACE": "7000"}, flags: []string{"--max-kinds-per-namespace=9000"}},
		"no room":                        {flags: []string{"--max-workers-per-namespace=0"}, problem: "--max-workers-per-namespace must be at least 1"},
		"more for one than for all":      {flags: []string{"--max-downloads-per-namespace=33"}, problem: "--max-downloads at least that"},
		"more for one client":            {flags: []string{"--max-archive-connections=10"}, problem: "--max-archive-connections-per-client"},
		"one version":                    {flags: []string{"--max-crd-versions=1"}, problem: "--max-crd-versions at least 2"},
		"no number in the environment":   {environment: map[string]string{"MAX_COLLECTIONS": "many"}, problem: "environment variable MAX_COLLECTIONS"},
		"no quantity in the environment": {environment: map[string]string{"MAX_LOADED_BYTES": "much"}, problem: "environment variable MAX_LOADED_BYTES"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tt.environment {
				t.Setenv(variable, value)
			}
			var s settings
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
	t.Setenv("MAX_STORED_BYTES", "8Gi")
	t.Setenv("MAX_KINDS", "3000")
	var s settings
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s.addFlags(flags)
	if err := flags.Parse([]string{"--max-kinds=4000"}); err != nil {
		t.Fatal(err)
	}
	if got := s.budgets.ofCollections(); got.StoredBytes.Total != 8<<30 || got.Kinds.Total != 4000 || got.CRDVersions != 50 {
		t.Errorf("got %+v, %+v", got.StoredBytes, got.Kinds)
	}
}
