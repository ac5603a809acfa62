package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
)

// permissionSettings decide what the manager may let others do.
type permissionSettings struct {
	createOperatorGroups bool
	requireScopedGrants  bool
	// invalid names the environment variables that are neither true nor false.
	invalid error
}

func (s *permissionSettings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.createOperatorGroups, "create-operator-groups", false, "create an OperatorGroup in mapped namespaces without one, so that OLM can install collections there; with an OperatorGroup, users who can create Subscriptions in the namespace can install any package with all permissions that it requests; default: environment variable CREATE_OPERATOR_GROUPS")
	flags.BoolVar(&s.requireScopedGrants, "require-scoped-grants", false, "ignore grants for all collections, ClusterRole collection-operator-grants: only grants that name a collection and a namespace count; default: environment variable REQUIRE_SCOPED_GRANTS")
	s.invalid = errors.Join(
		setDefault(flags.Lookup("create-operator-groups"), "CREATE_OPERATOR_GROUPS"),
		setDefault(flags.Lookup("require-scoped-grants"), "REQUIRE_SCOPED_GRANTS"),
	)
}

// setDefault sets the default of a boolean flag to the value of an environment variable, if it has one.
func setDefault(flag *pflag.Flag, variable string) error {
	value := os.Getenv(variable)
	if value == "" {
		return nil
	}
	if err := flag.Value.Set(value); err != nil {
		return fmt.Errorf("environment variable %s is %q: it must be true or false", variable, value)
	}
	flag.DefValue = flag.Value.String()
	return nil
}

// validate returns an error if an environment variable is not valid.
func (s *permissionSettings) validate() error { return s.invalid }
