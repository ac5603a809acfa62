package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// conclude writes the status that follows from the facts and from the error of the last step, and an event when Ready
// changed. It is the only place that turns errors into conditions.
func (r *SubOperatorConfigReconciler) conclude(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, err error) (ctrl.Result, error) {
	if soc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer is gone, and the object with it.
	}
	before := soc.DeepCopy()
	now := &soc.Status
	now.ObservedGeneration = soc.Generation
	if facts.applied {
		if len(facts.kept) == 0 {
			now.Version = facts.collection.Version.String()
			now.ClusterServiceVersion, now.Packages = facts.namesInOLM()
		}
		now.Installations = slices.Concat(facts.installations, facts.leaving, facts.kept)
		slices.SortFunc(now.Installations, byNamespace)
		now.CustomResourceDefinition = facts.crdNames()
		now.Warnings = boundWarnings(facts.warnings)
	}
	status.SetReady(&now.Conditions, soc.Generation, err, facts.readyMessage())
	now.Message = status.ReadyMessage(now.Conditions)
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile"}
	return writer.Write(ctx, soc, before, err)
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
