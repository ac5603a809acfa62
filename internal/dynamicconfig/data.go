package dynamicconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
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
	Flags Values
	// Environment has environment variables of a proxy.
	Environment map[string]string
}

// FromData reads the data of the ConfigMap: names of flags without dashes, and values as on the command line. A flag of the pod, which
// is one of ofPod, is refused: the pod would not fit it. The error has all problems, each of which names the key.
//
// The keys of earlier versions count as long as the name of the flag is not a key.
func FromData(flags *pflag.FlagSet, data map[string]string, ofPod []string) (Config, error) {
	config := Config{Flags: Values{}, Environment: map[string]string{}}
	var errs []error
	size := 0
	for _, key := range slices.Sorted(maps.Keys(data)) {
		text := data[key]
		size += len(key) + len(text)
		if slices.Contains(proxyVariables, key) {
			config.Environment[key] = text
			continue
		}
		name, isFormer := flagOf(key)
		flag := flags.Lookup(name)
		_, isShadowed := data[name]
		switch {
		case flag == nil:
			errs = append(errs, fmt.Errorf("key %s: there is no such setting; remove it, or correct its name", key))
		case slices.Contains(ofPod, name):
			errs = append(errs, fmt.Errorf("key %s: it cannot be changed while the manager runs, because the manager's pod depends on it; remove it, and set the flag --%s in the workload of the manager", key, name))
		case !isFormer && hasPassword(text):
			errs = append(errs, fmt.Errorf("key %s: the URL has a password, which everybody who may read the ConfigMap could use; remove it", key))
		case !isFormer:
			config.Flags[name] = Value{Origin: "key " + key, Texts: split(flag, text)}
		case text != "" && !isShadowed:
			config.Flags[name] = Value{Origin: "key " + key, Texts: split(flag, text)}
		}
	}
	if size > maxBytes {
		errs = append(errs, fmt.Errorf("the settings have %d bytes, of which at most %d are allowed", size, maxBytes))
	}
	return config, errors.Join(errs...)
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

func hasPassword(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil || parsed.User == nil {
		return false
	}
	_, isSet := parsed.User.Password()
	return isSet
}
