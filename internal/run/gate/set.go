package gate

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager of the gate's writes.
const FieldManager = "collection-operator-gate"

const (
	// lastApplied is where kubectl apply keeps the manifest.
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

	// clientSideApply is the field manager of kubectl apply. It also owns the defaults that the API server has added to what
	// it has applied.
	clientSideApply = "kubectl-client-side-apply"

	// engineManager is the field manager of ansible-operator, which sets no field of a spec.
	engineManager = "ansible-operator"
)

// Set tells which fields of a spec somebody has set, as far as the API server knows.
type Set struct {
	// owners are trees of the fields of the spec, as in managedFields, each of one manager.
	owners []map[string]any
	// applied is the spec that kubectl apply has applied, or nil.
	applied map[string]any
}

// SetOf returns which fields of the spec of a resource somebody has set. Whoever writes an object also owns the defaults that the
// API server adds to it then, so the gate and ansible-operator do not count, nor does kubectl apply, whose manifest is known.
func SetOf(resource metav1.Object) Set {
	var set Set
	var manifest struct {
		Spec map[string]any `json:"spec"`
	}
	text, isApplied := resource.GetAnnotations()[lastApplied]
	if isApplied && json.Unmarshal([]byte(text), &manifest) == nil {
		set.applied = manifest.Spec
	} else {
		isApplied = false
	}
	for _, entry := range resource.GetManagedFields() {
		isOurs := entry.Manager == FieldManager || entry.Manager == engineManager
		if isOurs || entry.FieldsV1 == nil || isApplied && entry.Manager == clientSideApply {
			continue
		}
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields); err == nil && fields.Spec != nil {
			set.owners = append(set.owners, fields.Spec)
		}
	}
	return set
}

// owned reports whether somebody owns the field with a path. Fields of lists are not owned one by one.
func (s Set) owned(path string) bool {
	for _, fields := range s.owners {
		if owns(fields, strings.Split(path, ".")) {
			return true
		}
	}
	return false
}

// has reports whether somebody has set the field with a path, which is not in a list.
func (s Set) has(path string) bool {
	if s.owned(path) {
		return true
	}
	var value any = s.applied
	for _, name := range strings.Split(path, ".") {
		object, ok := value.(map[string]any)
		if !ok {
			return false
		}
		if value, ok = object[name]; !ok {
			return false
		}
	}
	return true
}

func owns(fields map[string]any, path []string) bool {
	for _, name := range path {
		member, ok := fields["f:"+name].(map[string]any)
		if !ok {
			return false
		}
		fields = member
	}
	return true
}
