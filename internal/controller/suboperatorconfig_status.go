package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/mapping"
	"github.com/collection-operator/collection-operator/internal/status"
)

// writeStatus computes the status from the results and from the error of the failed step, if any, and writes it.
func (r *SubOperatorConfigReconciler) writeStatus(ctx context.Context, s *configScope, err error) (ctrl.Result, error) {
	if s.soc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer was removed: the object is deleted.
	}
	before := s.soc.DeepCopy()
	now := &s.soc.Status
	for _, result := range s.results {
		now.Installations = install.WithoutInstallation(now.Installations, result.Namespace)
		if result.Status != nil {
			now.Installations = install.WithInstallation(now.Installations, *result.Status)
		}
	}
	if s.suspended {
		if patchErr := status.Patch(ctx, r.Client, s.soc, before); patchErr != nil {
			return status.Result(patchErr)
		}
		s.problems = nil
		return status.Result(s.join(nil))
	}
	now.ObservedGeneration = s.soc.Generation
	if s.collection != nil && err == nil {
		s.describeInstallations(now)
	}
	err = s.join(err)
	status.SetReady(&now.Conditions, s.soc.Generation, err, s.readyMessage())
	now.Message = status.ReadyMessage(now.Conditions)
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile"}
	return writer.Write(ctx, s.soc, before, err)
}

// join joins the errors of the steps. What keeps an installation from being applied comes first. While the object is being
// deleted, problems of its mappings do not matter.
func (s *configScope) join(err error) error {
	blocking, others := []error{err}, slices.Clone(s.problems)
	if s.soc.DeletionTimestamp != nil {
		others = nil
	}
	for _, result := range s.results {
		if result.Applied {
			others = append(others, result.Err)
		} else {
			blocking = append(blocking, result.Err)
		}
	}
	return status.Join(append(blocking, others...)...)
}

// describeInstallations sets version and warnings once all namespaces are up to date, and the object names that clients read.
func (s *configScope) describeInstallations(now *v2beta2.SubOperatorConfigStatus) {
	if !slices.ContainsFunc(s.results, func(r install.Result) bool { return !r.Applied && mapping.Contains(s.mappings, r.Namespace) }) {
		now.Version = s.collection.Version.String()
		now.ClusterServiceVersion, now.Packages = s.namesInOLM()
		var warnings []string
		for _, result := range s.results {
			warnings = append(warnings, result.Warnings...)
		}
		now.Warnings = boundWarnings(warnings)
	}
	now.CustomResourceDefinition = nil
	for _, resource := range s.collection.Resources {
		now.CustomResourceDefinition = append(now.CustomResourceDefinition, v2beta2.NamedObject{
			Metadata: v2beta2.NamedObjectMeta{Name: resource.Plural() + "." + groupOf(s.oc, s.collection)},
		})
	}
}

// namesInOLM returns the names of the ClusterServiceVersion and the package, if OLM installed the operator in any namespace.
func (s *configScope) namesInOLM() (*v2beta2.NamedObject, []string) {
	if !slices.ContainsFunc(s.results, func(r install.Result) bool { return r.Applied && r.Status.Install == v2beta2.InstallOLM }) {
		return nil, nil
	}
	return &v2beta2.NamedObject{Metadata: v2beta2.NamedObjectMeta{Name: s.collection.CSVName()}}, []string{s.collection.OperatorName()}
}

// boundWarnings sorts warnings, removes duplicates from several namespaces, and cuts the list after maxWarnings.
func boundWarnings(warnings []string) []string {
	warnings = slices.Compact(slices.Sorted(slices.Values(warnings)))
	if len(warnings) <= maxWarnings {
		return warnings
	}
	return append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("%d more warnings", len(warnings)-maxWarnings))
}

func (s *configScope) readyMessage() string {
	var namespaces []string
	for _, result := range s.results {
		if result.Applied {
			namespaces = append(namespaces, result.Namespace)
		}
	}
	if len(namespaces) == 0 {
		return "no namespace is mapped"
	}
	return fmt.Sprintf("version %s runs in namespace %s", s.collection.Version, strings.Join(namespaces, ", "))
}
