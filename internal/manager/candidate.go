package manager

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/platform/settings"
)

// flagsOfPod cannot be set in the ConfigMap: they depend on the manager's pod, its volumes, probes and Services, and there must not be two
// leaders while one manager has the new value and another one does not.
var flagsOfPod = []string{"artifact-bind-address", "health-probe-bind-address", "leader-elect", "manager-namespace", "pod-name", "storage-dir"}

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

// invocation is how the process was started: what the settings are without a ConfigMap.
type invocation struct {
	arguments, environment settings.Values
}

func newInvocation(arguments []string, lookup func(string) (string, bool)) (*invocation, error) {
	var s options
	flags := s.newFlags()
	given, err := settings.FromArguments(flags, arguments)
	if err != nil {
		return nil, err
	}
	i := &invocation{arguments: given, environment: settings.FromEnvironment(flags, lookup)}
	return i, settings.Merge(i.environment, i.arguments).Set(flags)
}

// candidate are settings with which a manager may run.
type candidate struct {
	settings options
	// values are those that are not defaults.
	values settings.Values
	// environment has variables of a proxy.
	environment map[string]string
	// warnings are about keys without effect.
	warnings []string
	// data of the ConfigMap. It is not nil.
	data map[string]string
}

// with returns the settings with the data of a ConfigMap. It has precedence over the command line, which comes from those who packaged the
// manager, and over environment variables. Those in the ConfigMap keep the place that they had in earlier versions: the last. The error has all problems; the settings are usable nevertheless for a log.
func (i *invocation) with(data map[string]string) (*candidate, error) {
	c := &candidate{data: map[string]string{}}
	maps.Copy(c.data, data)
	flags := c.settings.newFlags()
	config, err := settings.FromData(flags, data, flagsOfPod)
	c.values = settings.Merge(config.Variables, i.environment, i.arguments, config.Flags)
	c.environment, c.warnings = config.Environment, config.Warnings
	return c, errors.Join(err, c.values.Set(flags), c.settings.validate())
}

// equals reports whether a manager that runs with other settings needs no new start.
func (c *candidate) equals(other *candidate) bool {
	return c.values.Equal(other.values) && maps.Equal(c.environment, other.environment)
}

// hash identifies the data of the ConfigMap.
func (c *candidate) hash() string {
	text, _ := json.Marshal(c.data) // Strings in the order of their keys.
	return fmt.Sprintf("%x", sha256.Sum256(text))
}
