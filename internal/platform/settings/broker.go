package settings

import (
	"maps"
	"strings"

	"github.com/collection-operator/collection-operator/api/v2beta1"
)

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
