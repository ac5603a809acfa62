package gate

import (
	"encoding/hex"
	"encoding/json"
)

// fingerprintBytes is the length of a hash in a Fingerprint, before it is written in hexadecimal.
const fingerprintBytes = 16

// Facts are the input of a fingerprint.
type Facts struct {
	Event    Event
	Playbook string
	// Variables are the declared variables, as Declared returns them, and zosendpoint.
	Variables map[string]any
	// References are the generations of the referenced resources by "plural/name"; 0 if one does not exist.
	References map[string]int64
	// Secrets are the contents of the named Secrets; nil for one that does not exist.
	Secrets map[string]map[string][]byte
	Digest  string
	// EndpointVariables is the content of the endpoint's file of variables; nil if there is no such endpoint.
	EndpointVariables []byte
}

// Fingerprint returns the keyed hashes of the facts. They do not depend on the Go types of numbers in Variables.
func (k Key) Fingerprint(f Facts) Fingerprint {
	fingerprint := Fingerprint{
		Spec: k.fingerprint(TriggerSpec, []byte(f.Event), []byte(f.Playbook),
			document(normalize(f.Variables)), document(f.References)),
		Collection: k.fingerprint(TriggerCollection, []byte(f.Digest)),
	}
	if len(f.Secrets) > 0 {
		fingerprint.Secret = k.fingerprint(TriggerSecret, document(f.Secrets))
	}
	if f.EndpointVariables != nil {
		fingerprint.Endpoint = k.fingerprint(TriggerEndpoint, f.EndpointVariables)
	}
	return fingerprint
}

func (k Key) fingerprint(part Trigger, facts ...[]byte) string {
	return hex.EncodeToString(k.hash("fingerprint "+string(part), facts...)[:fingerprintBytes])
}

// document returns a value as JSON with sorted keys. The values of facts are always valid.
func document(value any) []byte {
	out, _ := json.Marshal(value)
	return out
}

// changedSince lists the parts in which two fingerprints differ.
func (f Fingerprint) changedSince(last Fingerprint) []Trigger {
	var changed []Trigger
	for _, part := range []struct {
		trigger   Trigger
		now, last string
	}{
		{TriggerSpec, f.Spec, last.Spec},
		{TriggerSecret, f.Secret, last.Secret},
		{TriggerCollection, f.Collection, last.Collection},
		{TriggerEndpoint, f.Endpoint, last.Endpoint},
	} {
		if part.now != part.last {
			changed = append(changed, part.trigger)
		}
	}
	return changed
}
