package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// variablePrefix begins the name of the environment variable of each flag.
const variablePrefix = "COLLECTION_OPERATOR_"

// variableOf returns the environment variable of a flag, such as COLLECTION_OPERATOR_FETCH_TIMEOUT for fetch-timeout.
func variableOf(flag string) string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// setFromEnvironment sets the flags that the command line does not set from their environment variables. A flag that may be
// repeated has a list, separated by commas or white space. An empty variable counts as not set. The errors name the variables.
func setFromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var errs []error
	flags.VisitAll(func(flag *pflag.Flag) {
		variable := variableOf(flag.Name)
		text, _ := lookup(variable)
		if flag.Changed || text == "" {
			return
		}
		values := []string{text}
		if repeats(flag) {
			values = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
		}
		for _, value := range values {
			if err := flags.Set(flag.Name, value); err != nil {
				errs = append(errs, fmt.Errorf("environment variable %s: %w", variable, err))
				return
			}
		}
	})
	return errors.Join(errs...)
}

func repeats(flag *pflag.Flag) bool {
	_, isSlice := flag.Value.(pflag.SliceValue)
	return isSlice || flag.Value.Type() == "func"
}

// ofService matches the ends of the variables that Kubernetes sets for each Service, such as our own.
var ofService = regexp.MustCompile(`_(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)$`)

// unknownVariables returns the names of variables that look like those of flags, but are of none, sorted.
func unknownVariables(environment []string, all ...*pflag.FlagSet) []string {
	known := map[string]bool{}
	for _, flags := range all {
		flags.VisitAll(func(flag *pflag.Flag) { known[variableOf(flag.Name)] = true })
	}
	var unknown []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, variablePrefix) && !known[name] && !ofService.MatchString(name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return unknown
}
