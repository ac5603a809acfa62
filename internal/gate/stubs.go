package gate

import "time"

// Key signs records and keys fingerprints.
type Key []byte

// Identity is the resource that a record belongs to.
type Identity struct{ Group, Kind, Namespace, Name string }

// Sign returns the annotation for a record.
func (k Key) Sign(id Identity, r Record) string { panic("not yet") }

// Verify returns the record of an annotation, or nil if it was not signed with this key for this resource.
func (k Key) Verify(id Identity, annotation string) *Record { panic("not yet") }

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

// Fingerprint returns the keyed hashes of the facts.
func (k Key) Fingerprint(f Facts) Fingerprint { panic("not yet") }

// Declared returns the declared variables of a spec (with plain or marked values), defaults included, plain, and the sorted
// paths of the fields that are not declared, such as "pyz" or "owner_info.pyz". zosendpoint is declared.
func (k KindSettings) Declared(spec map[string]any) (vars map[string]any, ignored []string) { panic("not yet") }

// ExtraVars returns what is left of ansible-operator's extra vars: the declared variables (strings marked as unsafe) and
// those of the watch, ansible_operator_meta and the object variables included, reduced to declared fields; and the names of
// the fields that were dropped.
func (k KindSettings) ExtraVars(given map[string]any) (vars map[string]any, ignored []string) { panic("not yet") }

// SecretNames returns the sorted names of the Secrets that variables name.
func (k KindSettings) SecretNames(vars map[string]any) []string { panic("not yet") }

// References returns the sorted resources that variables name, as plural/name.
func (k KindSettings) References(vars map[string]any) []string { panic("not yet") }

// Decide decides whether the playbook runs now.
func Decide(in Input) Decision { panic("not yet") }

// Next returns the record after a run that in and d led to. requeueAfter is what the playbook asked for, or 0.
func Next(in Input, d Decision, id string, outcome Outcome, finished time.Time, requeueAfter time.Duration) Record {
	panic("not yet")
}
