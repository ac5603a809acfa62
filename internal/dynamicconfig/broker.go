package dynamicconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/api/v2beta1"
)

// logLevels are those of the flag zap-log-level that have a name.
var logLevels = []string{"debug", "info", "error"}

// FromBroker returns the settings of a ZosCloudBroker as data of the ConfigMap. home is the namespace of the manager.
func FromBroker(spec *v2beta1.ZosCloudBrokerSpec, home string) (map[string]string, error) {
	data := map[string]string{}
	if level := strings.ToLower(spec.LogLevel); slices.Contains(logLevels, level) {
		data["zap-log-level"] = level
	} else if level != "" {
		return nil, fmt.Errorf("spec.logLevel is %q, and must be one of %s", spec.LogLevel, strings.Join(logLevels, ", "))
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
	return data, nil
}

// IgnoredFields returns the fields of a ZosCloudBroker that are set and have no effect, in the order of the type.
func IgnoredFields(spec *v2beta1.ZosCloudBrokerSpec) []string {
	var fields []string
	if spec.Storage != nil {
		fields = append(fields, "spec.storage")
	}
	if spec.Resources != nil {
		fields = append(fields, "spec.resources")
	}
	return fields
}

// Overlay returns data with what is only in under: a key that names a flag in any form replaces one there.
func Overlay(under, data map[string]string) map[string]string {
	merged := maps.Clone(under)
	if merged == nil {
		merged = map[string]string{}
	}
	for key := range data {
		if name, _ := flagOf(key); data[key] != "" || name == key {
			delete(merged, name)
		}
	}
	maps.Copy(merged, data)
	return merged
}
