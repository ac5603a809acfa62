package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/platform/settings"
)

// flagsOfPod cannot be set in the ConfigMap: they depend on the manager's pod, its volumes, probes and Services, and there must not be two
// leaders while one manager has the new value and another one does not.
var flagsOfPod = []string{"artifact-bind-address", "health-probe-bind-address", "leader-elect", "manager-namespace", "pod-name", "storage-dir"}

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

func (s *options) newFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s.addFlags(flags)
	return flags
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
