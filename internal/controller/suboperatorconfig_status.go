package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
)

// conclude writes the status that follows from the facts and from the error of the last step, and an event when Ready
// changed. It is the only place that turns errors into conditions.
func (r *SubOperatorConfigReconciler) conclude(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, err error) (ctrl.Result, error) {
	if soc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer is gone, and the object with it.
	}
	before := soc.DeepCopy()
	status := &soc.Status
	status.ObservedGeneration = soc.Generation
	if facts.applied {
		if len(facts.kept) == 0 {
			status.Version = facts.collection.Version.String()
			status.ClusterServiceVersion, status.Packages = facts.namesInOLM()
		}
		status.Installations = slices.Concat(facts.installations, facts.leaving, facts.kept)
		slices.SortFunc(status.Installations, byNamespace)
		status.CustomResourceDefinition = facts.crdNames()
		status.Warnings = boundWarnings(facts.warnings)
	}
	setReady(&status.Conditions, soc.Generation, err, facts.readyMessage())
	status.Message = readyMessage(status.Conditions)
	status.Phase = phaseOf(status.Conditions, v2beta2.ConditionReady)
	return writeStatus(ctx, r.Client, soc, before, err, func(eventType, reason, message string) {
		r.Recorder.Eventf(soc, nil, eventType, reason, "Reconcile", "%s", message)
	}, before.Status.Conditions, status.Conditions, !equality.Semantic.DeepEqual(before.Status, soc.Status))
}

// namesInOLM are those under which clients find the collection in OLM, if OLM runs it anywhere.
func (f *installationFacts) namesInOLM() (*v2beta2.NamedObject, []string) {
	if !slices.ContainsFunc(f.installations, func(i v2beta2.InstallationStatus) bool { return i.Install == v2beta2.InstallOLM }) {
		return nil, nil
	}
	return &v2beta2.NamedObject{Metadata: v2beta2.NamedObjectMeta{Name: f.collection.CSVName()}}, []string{render.PackageName(f.collection)}
}

func (f *installationFacts) crdNames() []v2beta2.NamedObject {
	var names []v2beta2.NamedObject
	for _, resource := range f.collection.Resources {
		names = append(names, v2beta2.NamedObject{
			Metadata: v2beta2.NamedObjectMeta{Name: resource.Plural() + "." + groupOf(f.oc, f.collection)},
		})
	}
	return names
}

// boundWarnings sorts warnings, each of which may hold for several namespaces, and shows the first of them.
func boundWarnings(warnings []string) []string {
	warnings = slices.Compact(slices.Sorted(slices.Values(warnings)))
	if len(warnings) <= maxWarnings {
		return warnings
	}
	return append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("%d more warnings", len(warnings)-maxWarnings))
}

func (f *installationFacts) readyMessage() string {
	if len(f.installations) == 0 {
		return "no namespace is mapped"
	}
	var namespaces []string
	for _, installation := range f.installations {
		namespaces = append(namespaces, installation.Namespace)
	}
	return fmt.Sprintf("version %s runs in namespace %s", f.collection.Version, strings.Join(namespaces, ", "))
}
