package main

import "github.com/spf13/pflag"

// permissionSettings decide what the manager may let others do.
type permissionSettings struct {
	createOperatorGroups bool
	requireScopedGrants  bool
}

func (s *permissionSettings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.createOperatorGroups, "create-operator-groups", false, "create an OperatorGroup in mapped namespaces without one, so that OLM can install collections there; with an OperatorGroup, users who can create Subscriptions in the namespace can install any package with all permissions that it requests")
	flags.BoolVar(&s.requireScopedGrants, "require-scoped-grants", false, "ignore grants for all collections, ClusterRole collection-operator-grants: only grants that name a collection and a namespace count")
}
