package settings

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/api/v2beta1"
)

const (
	// Name is that of the ConfigMap with the settings, in the namespace of the manager.
	Name = "collection-operator-settings"
	// maxBytes limits the size of the settings: what is in use is stored together with a message.
	maxBytes = 256 << 10
)

// formerKeys are keys of earlier versions that are not names of flags. Those that begin with VariablePrefix are others.
var formerKeys = map[string]string{
	"runtimeImage": "runtime-image", "runtimeArchitectures": "runtime-architectures", "galaxyURL": "galaxy-url", "pipIndexURL": "pip-index-url",
}

// proxyVariables are environment variables that the ConfigMap may set besides flags.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

// Config is what the ConfigMap says.
type Config struct {
	// Flags have precedence over all other sources.
	Flags Values
	// Variables are those of keys that are environment variables of flags, as earlier versions used them: other variables and arguments
	// have precedence.
	Variables Values
	// Environment has environment variables of a proxy.
	Environment map[string]string
	// Warnings are about keys that have no effect, sorted.
	Warnings []string
}

// FromData reads the data of the ConfigMap: names of flags without dashes, and values as on the command line. A flag of the pod, which
// is one of ofPod, is refused: the pod would not fit it. The error has all problems, each of which names the key.
//
// Earlier versions took all keys as environment variables: those that are of no flag are warnings. Other keys of theirs count as long as
// the name of the flag is not a key.
func FromData(flags *pflag.FlagSet, data map[string]string, ofPod []string) (Config, error) {
	config := Config{Flags: Values{}, Variables: Values{}, Environment: map[string]string{}}
	var errs []error
	size := 0
	for _, key := range slices.Sorted(maps.Keys(data)) {
		size += len(key) + len(data[key])
		errs = append(errs, config.read(flags, data, key, ofPod))
	}
	if size > maxBytes {
		errs = append(errs, fmt.Errorf("the settings have %d bytes, of which at most %d are allowed", size, maxBytes))
	}
	return config, errors.Join(errs...)
}

// read reads one key.
func (c *Config) read(flags *pflag.FlagSet, data map[string]string, key string, ofPod []string) error {
	text := data[key]
	name, isFormer := flagOf(key)
	flag, isOfPod := flags.Lookup(name), slices.Contains(ofPod, name)
	isProxy := slices.Contains(proxyVariables, key)
	_, isShadowed := data[name]
	switch {
	case !isProxy && isVariable.MatchString(key) && (flag == nil || isOfPod):
		c.Warnings = append(c.Warnings, fmt.Sprintf("key %s has no effect: it is no setting; remove it", key))
	case isProxy && hasProxyPassword(text), hasPassword(text):
		return fmt.Errorf("key %s: the URL has a password, which everybody who may read the ConfigMap could use; remove it", key)
	case isProxy:
		c.Environment[key] = text
	case flag == nil:
		return fmt.Errorf("key %s: there is no such setting; remove it, or correct its name", key)
	case isOfPod:
		return fmt.Errorf("key %s: it cannot be changed while the manager runs, because the manager's pod depends on it; remove it, and set the flag --%s in the workload of the manager", key, name)
	case isFormer && (text == "" || isShadowed):
	case strings.HasPrefix(key, VariablePrefix):
		c.Variables[name] = Value{Origin: "key " + key, Texts: split(flag, text)}
	default:
		c.Flags[name] = Value{Origin: "key " + key, Texts: split(flag, text)}
	}
	return nil
}

// flagOf returns the name of the flag of a key, and whether the key is one of earlier versions.
func flagOf(key string) (name string, isFormer bool) {
	if name, ok := formerKeys[key]; ok {
		return name, true
	}
	if rest, ok := strings.CutPrefix(key, VariablePrefix); ok {
		return strings.ToLower(strings.ReplaceAll(rest, "_", "-")), true
	}
	return key, false
}

// isVariable matches names of environment variables.
var isVariable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// hasProxyPassword also finds one in a proxy without a scheme, such as user:password@proxy:3128.
func hasProxyPassword(text string) bool { return hasPassword("//" + text) }

// logLevels have the value of the flag zap-log-level for each level of a ZosCloudBroker.
var logLevels = map[string]string{
	"trace": "debug", "debug": "debug", "info": "info", "warn": "info", "warning": "info", "error": "error",
}

// FromBroker returns the settings of a ZosCloudBroker as data of the ConfigMap. home is the namespace of the manager.
func FromBroker(spec *v2beta1.ZosCloudBrokerSpec, home string) map[string]string {
	data := map[string]string{}
	if level, isKnown := logLevels[strings.ToLower(spec.LogLevel)]; isKnown {
		data["zap-log-level"] = level
	}
	if spec.MultiNamespace != nil {
		data["namespaces"] = ""
		if !*spec.MultiNamespace {
			data["namespaces"] = home
		}
	}
	if galaxy := spec.GalaxyConfig; galaxy != nil && galaxy.GalaxyURL != "" && (galaxy.Enabled == nil || *galaxy.Enabled) {
		data["galaxy-url"] = galaxy.GalaxyURL
	}
	return data
}

// Ignored returns which fields of a ZosCloudBroker are set and have no effect, and why, in the order of the type.
func Ignored(spec *v2beta1.ZosCloudBrokerSpec) []string {
	var fields []string
	if _, isKnown := logLevels[strings.ToLower(spec.LogLevel)]; !isKnown && spec.LogLevel != "" {
		fields = append(fields, "spec.logLevel, which is none of trace, debug, info, warn and error")
	}
	if spec.Storage != nil {
		fields = append(fields, "spec.storage, which the workload of the manager has")
	}
	if spec.Resources != nil {
		fields = append(fields, "spec.resources, which the workload of the manager has")
	}
	return fields
}

// Overlay returns data with what is only in under: a key that names a flag replaces one there, unless it is an environment variable, over
// which all others have precedence.
func Overlay(under, data map[string]string) map[string]string {
	merged := maps.Clone(under)
	if merged == nil {
		merged = map[string]string{}
	}
	for key := range data {
		if name, _ := flagOf(key); !strings.HasPrefix(key, VariablePrefix) && (data[key] != "" || name == key) {
			delete(merged, name)
		}
	}
	maps.Copy(merged, data)
	return merged
}
