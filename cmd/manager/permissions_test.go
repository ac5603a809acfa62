package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestPermissionSettings(t *testing.T) {
	for name, test := range map[string]struct {
		groups, scoped string
		flags          []string
		want           permissionSettings
		problem        string
	}{
		"default":               {},
		"environment":           {groups: "true", scoped: "true", want: permissionSettings{createOperatorGroups: true, requireScopedGrants: true}},
		"flags":                 {flags: []string{"--create-operator-groups", "--require-scoped-grants"}, want: permissionSettings{createOperatorGroups: true, requireScopedGrants: true}},
		"a flag takes priority": {groups: "true", flags: []string{"--create-operator-groups=false"}},
		"no boolean":            {scoped: "yes", problem: "REQUIRE_SCOPED_GRANTS is \"yes\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CREATE_OPERATOR_GROUPS", test.groups)
			t.Setenv("REQUIRE_SCOPED_GRANTS", test.scoped)
			var s permissionSettings
			flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
			s.addFlags(flags)
			if err := flags.Parse(test.flags); err != nil {
				t.Fatal(err)
			}
			err := s.validate()
			if (err == nil) != (test.problem == "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Fatalf("got %v", err)
			}
			if err == nil && s != test.want {
				t.Errorf("got %+v", s)
			}
		})
	}
}
