package runner

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// supplyOf returns what the playbook gets of a resource.
func (r *runner) supplyOf(live *unstructured.Unstructured) gate.Supply {
	return r.supply(r.files.kind, r.files.identity(), live)
}

func (r *runner) supply(kind gate.KindSettings, id gate.Identity, live *unstructured.Unstructured) gate.Supply {
	last := gate.Input{
		Record: r.files.key.Verify(id, live.GetAnnotations()[gate.AnnotationRecord]), UID: live.GetUID(), Installation: r.installation,
		LastRun: runstatus.LastRun(statusOf(live)),
	}
	return gate.NewSupply(kind, last.Last(), gate.SetOf(live), r.accepts(live))
}

// accepts reports whether a resource takes the defaults of the installed version.
func (r *runner) accepts(live *unstructured.Unstructured) bool {
	return live.GetAnnotations()[gate.AnnotationAcceptDefaults] == r.files.settings.Version
}

// referenced returns the variables of a resource that another one names. Defaults that its last run did not have are left out: they
// change nothing for the others before it runs with them.
func (r *runner) referenced(plural string, live *unstructured.Unstructured) map[string]any {
	for name, kind := range r.files.settings.Kinds {
		if kind.Plural != plural {
			continue
		}
		id := gate.Identity{Group: r.files.settings.Group, Kind: name, Namespace: live.GetNamespace(), Name: live.GetName()}
		supply := r.supply(kind, id, live)
		vars, _ := supply.Declared(specOf(live))
		return supply.WithoutNew(vars)
	}
	return map[string]any{}
}
