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
	deleting := s.soc.DeletionTimestamp != nil
	if deleting && err == nil {
		return ctrl.Result{}, nil // The finalizer was removed: the object is deleted.
	}
	before := s.soc.DeepCopy()
	now := &s.soc.Status
	errs := []error{err}
	if !deleting {
		errs = append(errs, s.problems...)
	}
	applied, complete := s.collection != nil && err == nil, true
	for _, result := range s.results {
		errs = append(errs, result.Err)
		complete = complete && (result.Applied || !mapping.Contains(s.mappings, result.Namespace))
		if result.Status == nil {
			now.Installations = install.WithoutInstallation(now.Installations, result.Namespace)
			continue
		}
		now.Installations = install.WithInstallation(now.Installations, *result.Status)
	}
	if s.suspended {
		if patchErr := status.Patch(ctx, r.Client, s.soc, before); patchErr != nil {
			return status.Result(patchErr)
		}
		return status.Result(status.Join(errs[1+len(s.problems):]...))
	}
	now.ObservedGeneration = s.soc.Generation
	if applied {
		s.describeInstallations(now, complete)
	}
	err = status.Join(errs...)
	status.SetReady(&now.Conditions, s.soc.Generation, err, s.readyMessage())
	now.Message = status.ReadyMessage(now.Conditions)
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile"}
	return writer.Write(ctx, s.soc, before, err)
}

// describeInstallations sets the version once it is applied in all namespaces, and the object names that clients read.
func (s *configScope) describeInstallations(now *v2beta2.SubOperatorConfigStatus, complete bool) {
	if complete {
		now.Version = s.collection.Version.String()
		now.ClusterServiceVersion, now.Packages = s.namesInOLM()
	}
	now.CustomResourceDefinition = nil
	for _, resource := range s.collection.Resources {
		now.CustomResourceDefinition = append(now.CustomResourceDefinition, v2beta2.NamedObject{
			Metadata: v2beta2.NamedObjectMeta{Name: resource.Plural() + "." + groupOf(s.oc, s.collection)},
		})
	}
	var warnings []string
	for _, result := range s.results {
		warnings = append(warnings, result.Warnings...)
	}
	now.Warnings = boundWarnings(warnings)
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
