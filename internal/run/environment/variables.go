package environment

import (
	"slices"
	"strings"
)

// variables are those of a process. The order is that of the process.
type variables struct {
	names  []string
	values map[string]string
	// given are the names of those that come from the manager.
	given []string
}

// newVariables leaves out what the manager gave before.
func newVariables(environ []string) *variables {
	v := &variables{values: map[string]string{}}
	for _, variable := range environ {
		key, value, _ := strings.Cut(variable, "=")
		v.set(key, value)
	}
	if marker := strings.Fields(v.values[Marker]); len(marker) > 0 {
		for _, key := range marker[1:] {
			v.remove(key)
		}
	}
	v.remove(Marker)
	return v
}

func (v *variables) has(key string) bool {
	_, ok := v.values[key]
	return ok
}

func (v *variables) set(key, value string) {
	if !v.has(key) {
		v.names = append(v.names, key)
	}
	v.values[key] = value
}

func (v *variables) remove(key string) {
	delete(v.values, key)
	v.names = slices.DeleteFunc(v.names, func(name string) bool { return name == key })
}

func (v *variables) give(key, value string) {
	v.set(key, value)
	v.given = append(v.given, key)
}

// excludeCluster completes NO_PROXY, in both spellings, if there is a proxy.
func (v *variables) excludeCluster() {
	usesProxy := slices.ContainsFunc([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}, func(key string) bool {
		return v.values[key] != "" || v.values[strings.ToLower(key)] != ""
	})
	if !usesProxy {
		return
	}
	for _, key := range []string{noProxy, strings.ToLower(noProxy)} {
		if v.has(key) {
			v.set(key, NoProxy(v.values[key], v.values[apiServer]))
			continue
		}
		other := v.values[noProxy] + v.values[strings.ToLower(noProxy)] // One of them at most.
		v.give(key, NoProxy(other, v.values[apiServer]))
	}
}

// environ returns the variables with the marker.
func (v *variables) environ() []string {
	environ := make([]string, 0, len(v.names)+1)
	for _, key := range v.names {
		environ = append(environ, key+"="+v.values[key])
	}
	return append(environ, Marker+"="+strings.Join(append([]string{"taken"}, v.given...), " "))
}
