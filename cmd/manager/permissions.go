package main

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// permissionSettings decide what the manager may let others do.
type permissionSettings struct {
	createOperatorGroups bool
	requireScopedGrants  bool
	// invalid is the first environment variable that is neither true nor false.
	invalid error
}

func (s *permissionSettings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.createOperatorGroups, "create-operator-groups", false, "create an OperatorGroup in mapped namespaces without one, so that OLM can install collections there; with an OperatorGroup, users who can create Subscriptions in the namespace can install any package with all permissions that it requests; default: environment variable CREATE_OPERATOR_GROUPS")
	flags.BoolVar(&s.requireScopedGrants, "require-scoped-grants", false, "ignore grants for all collections, ClusterRole collection-operator-grants: only grants that name a collection and a namespace count; default: environment variable REQUIRE_SCOPED_GRANTS")
	for name, variable := range map[string]string{
		"create-operator-groups": "CREATE_OPERATOR_GROUPS", "require-scoped-grants": "REQUIRE_SCOPED_GRANTS",
	} {
		value := os.Getenv(variable)
		if value == "" {
			continue
		}
		flag := flags.Lookup(name)
		if err := flag.Value.Set(value); err != nil {
			s.invalid = fmt.Errorf("environment variable %s is %q: it must be true or false", variable, value)
		}
		flag.DefValue = flag.Value.String()
	}
}

// validate returns an error if an environment variable is not valid.
func (s *permissionSettings) validate() error { return s.invalid }
