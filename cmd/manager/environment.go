package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/platform/settings"
)

// setFromEnvironment sets the flags that the command line does not set from their environment variables. A flag that may be
// repeated has a list, separated by commas or white space. An empty variable counts as not set. The errors name the variables.
func setFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	values := settings.FromEnvironment(flags, lookup)
	flags.Visit(func(flag *pflag.Flag) { delete(values, flag.Name) })
	return values.Set(flags)
}

// ofService matches the ends of the variables that Kubernetes sets for each Service, such as our own.
var ofService = regexp.MustCompile(`_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$`)

// unknownVariables returns the names of variables that look like those of flags, but are of none, sorted.
func unknownVariables(environment []string, all ...*pflag.FlagSet) []string {
	known := map[string]bool{}
	for _, flags := range all {
		flags.VisitAll(func(flag *pflag.Flag) { known[settings.Variable(flag.Name)] = true })
	}
	var unknown []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, settings.VariablePrefix) && !known[name] && !ofService.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
