package gate

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
)

// fingerprintBytes and variableBytes are the lengths of the hashes in a Fingerprint, before they are written in hexadecimal.
const (
	fingerprintBytes = 16
	variableBytes    = 6
)

// The hash of a variable that is not set, and the prefix of one that has its default.
const (
	notSet    = "-"
	byDefault = "="
)

// Facts are the input of a fingerprint.
type Facts struct {
	Event Event
	Kind  KindSettings
	// Variables are the declared variables, as Declared returns them, and zosendpoint.
	Variables map[string]any
	// References are the declared variables of the referenced resources by "plural/name"; nil if one does not exist.
	References map[string]map[string]any
	// Secrets are the contents of the named Secrets; nil for one that does not exist.
	Secrets map[string]map[string][]byte
	Digest  string
	// EndpointVariables is the content of the endpoint's file of variables; nil if there is no such endpoint.
	EndpointVariables []byte
}

// Fingerprint returns the keyed hashes of the facts. They do not depend on the Go types of numbers in Variables.
func (k Key) Fingerprint(f Facts) Fingerprint {
	fingerprint := Fingerprint{
		Spec:       k.fingerprint(TriggerSpec, []byte(f.Event), document(f.References)),
		Variables:  map[string]string{},
		Collection: k.fingerprint(TriggerCollection, []byte(f.Digest)),
	}
	k.addVariables(fingerprint.Variables, "", append(f.Kind.Variables[:len(f.Kind.Variables):len(f.Kind.Variables)],
		Variable{Name: endpointVariable}), f.Variables)
	if len(f.Secrets) > 0 {
		fingerprint.Secret = k.fingerprint(TriggerSecret, document(f.Secrets))
	}
	if f.EndpointVariables != nil {
		fingerprint.Endpoint = k.fingerprint(TriggerEndpoint, f.EndpointVariables)
	}
	return fingerprint
}

// addVariables adds the hashes of the declared variables to a fingerprint. The members of an object have their own.
func (k Key) addVariables(hashes map[string]string, prefix string, declared []Variable, values map[string]any) {
	for _, v := range declared {
		path := prefix + v.Name
		value, set := values[v.Name]
		if object, isObject := value.(map[string]any); len(v.Fields) > 0 && (isObject || !set) {
			k.addVariables(hashes, path+".", v.Fields, object)
			continue
		}
		if !set {
			hashes[path] = notSet
			continue
		}
		value = v.withoutDefaults(normalize(value))
		hash := hex.EncodeToString(k.hash("variable", []byte(path), document(value))[:variableBytes])
		if usual, ok := v.defaultValue(); ok && reflect.DeepEqual(value, v.withoutDefaults(normalize(usual))) {
			hash = byDefault + hash
		}
		hashes[path] = hash
	}
}

// withoutDefaults leaves out the members of the objects in a list that have their default.
func (v Variable) withoutDefaults(value any) any {
	items, isList := value.([]any)
	if len(v.Fields) == 0 || !isList {
		return value
	}
	return each(items, func(item any) any {
		object, isObject := item.(map[string]any)
		if !isObject {
			return item
		}
		set := maps.Clone(object)
		for _, field := range v.Fields {
			if usual, ok := field.defaultValue(); ok && reflect.DeepEqual(set[field.Name], normalize(usual)) {
				delete(set, field.Name)
			}
		}
		return set
	})
}

func (k Key) fingerprint(part Trigger, facts ...[]byte) string {
	return hex.EncodeToString(k.hash("fingerprint "+string(part), facts...)[:fingerprintBytes])
}

// document returns a value as JSON with sorted keys. The values of facts are always valid.
func document(value any) []byte {
	out, _ := json.Marshal(value)
	return out
}

// changedSince lists the parts in which two fingerprints differ. Another default of another version only counts if it is accepted.
// ofMigration is true if the last fingerprint has the digest of a migration, and the variables of a run before.
func (f Fingerprint) changedSince(last Fingerprint, accepts, ofMigration bool) []Trigger {
	strict := accepts || f.Collection == last.Collection && !ofMigration
	var changed []Trigger
	for _, part := range []struct {
		trigger Trigger
		differs bool
	}{
		{TriggerSpec, f.Spec != last.Spec || variablesChanged(f.Variables, last.Variables, strict, accepts)},
		{TriggerSecret, f.Secret != last.Secret},
		{TriggerCollection, f.Collection != last.Collection},
		{TriggerEndpoint, f.Endpoint != last.Endpoint},
	} {
		if part.differs {
			changed = append(changed, part.trigger)
		}
	}
	return changed
}

// variablesChanged compares the variables that both versions of a collection declare. One that only the present version
// declares has changed if it is set to something else than its default, or if accepts is true. Unless strict is true, a variable
// that was not set or had another default, and has its default now, has not changed.
func variablesChanged(now, last map[string]string, strict, accepts bool) bool {
	for path, hash := range now {
		before, declared := last[path]
		isDefault := strings.HasPrefix(hash, byDefault)
		wasUnset := before == notSet || strings.HasPrefix(before, byDefault)
		switch {
		case !declared && (hash == notSet || isDefault && !accepts):
		case declared && strings.TrimPrefix(hash, byDefault) == strings.TrimPrefix(before, byDefault):
		case declared && isDefault && wasUnset && !strict:
		default:
			return true
		}
	}
	return false
}
