package upgrade

import (
	"cmp"
	"slices"
	"strings"
)

// Problem is what another version of a collection means for a field of a custom resource.
type Problem struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Field is the path of the field, such as "spec.logs[0].dsn", or "" if it is the resource as a whole.
	Field string `json:"field,omitempty"`
	// Message says what is wrong or changes. It never holds a value that a user gave.
	Message string `json:"message"`

	// Refused says that the API server refuses to create the same resource with the new version, and, if it does not ratchet, to
	// change anything in it.
	Refused bool `json:"refused,omitempty"`
	// RefusedUntouched says that the API server, although it ratchets, refuses to change another field of the resource's spec.
	RefusedUntouched bool `json:"refusedUntouched,omitempty"`
	// Already says that a Refused resource is refused for this field also by the version that it has: the new version breaks nothing.
	Already bool `json:"already,omitempty"`
	// Ignored says that the resource sets the field, and the new version does not declare it.
	Ignored bool `json:"ignored,omitempty"`
	// MeaningChanged says that the new version takes the field for something else.
	MeaningChanged bool `json:"meaningChanged,omitempty"`
	// Removed says that the new version does not have the kind.
	Removed bool `json:"removed,omitempty"`
	// Migrated says that the resource was migrated to a newer version, which cannot be undone.
	Migrated bool `json:"migrated,omitempty"`
}

// Blocks says whether the new version breaks the resource. Other problems are warnings.
func (p Problem) Blocks() bool {
	return p.Refused && !p.Already || p.Ignored || p.MeaningChanged || p.Removed || p.Migrated
}

// String is the problem on one line, such as "DataFile team-a/payroll: spec.mode: must be set".
func (p Problem) String() string {
	text := p.Kind + " " + p.Namespace + "/" + p.Name + ": "
	if p.Field != "" {
		text += p.Field + ": "
	}
	return text + p.Message
}

// sortProblems puts those that block first.
func sortProblems(problems []Problem) {
	blocking := func(p Problem) int {
		if p.Blocks() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(blocking(a)-blocking(b), strings.Compare(a.Field, b.Field))
	})
}
