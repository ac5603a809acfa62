package suboperatorconfig

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// writeStatus computes the status from the results and from the error of the failed step, if any, and writes it.
func (r *Reconciler) writeStatus(ctx context.Context, s *configScope, err error) (ctrl.Result, error) {
	if s.soc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer was removed: the object is deleted.
	}
	before := s.soc.DeepCopy()
	now := &s.soc.Status
	if s.owned == nil { // Otherwise it is tried again.
		now.OperatorCollectionUID = cmp.Or(s.served, now.OperatorCollectionUID)
	}
	setInstallations(now, s.soc, s.results)
	if s.suspended {
		if patchErr := status.Patch(ctx, r.Client, s.soc, before); patchErr != nil {
			return status.Result(patchErr)
		}
		s.problems = []error{s.owned}
		return status.Result(s.join(nil))
	}
	migrating := r.describeMigration(ctx, s, before)
	err = s.describe(err)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile", Before: s.foreseen, BecameReady: metrics.BecameReady("SubOperatorConfig")}
	problem := status.AsError(err)
	result, err := writer.Write(ctx, s.soc, before, err)
	if problem != nil && problem.Reason == v2beta2.ReasonUpgradeBlocked {
		return result, err // Users change what blocks an upgrade, and are told that it is checked every minute.
	}
	if migrating && err == nil && (result.RequeueAfter == 0 || result.RequeueAfter > intervals.Migration) {
		result.RequeueAfter = intervals.Migration
	}
	text := now.Message
	if migrated := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionMigrated); migrated != nil {
		text += migrated.Message
	}
	result.RequeueAfter = r.waits.delay(s.soc.UID, text, result.RequeueAfter, time.Now())
	return result, err
}

// predictStatus sets the status that the reconciliation will normally write at its end, so that it does not have to. What may have to be
// migrated is not known before.
func (r *Reconciler) predictStatus(s *configScope, expected []install.Result) {
	if s.collection.MigrationPlaybook != "" || s.foreseen != nil {
		return
	}
	conditions := slices.Clone(s.soc.Status.Conditions)
	s.foreseen = &conditions
	s.former.version, s.former.digest = s.soc.Status.Version, s.soc.Status.Digest
	results := s.results
	s.results = slices.Concat(results, expected)
	setInstallations(&s.soc.Status, s.soc, expected)
	_ = s.describe(nil) // It is in the status.
	s.results = results
}

// setInstallations updates the entries of installations in a status.
func setInstallations(now *v2beta2.SubOperatorConfigStatus, soc *v2beta2.SubOperatorConfig, results []install.Result) {
	for _, result := range results {
		was := install.Recorded(soc, result.Namespace)
		now.Installations = install.WithoutInstallation(now.Installations, result.Namespace)
		if result.Status != nil {
			result.Status.ReadySince = readySince(was, result.Status)
			now.Installations = install.WithInstallation(now.Installations, *result.Status)
		}
	}
}

// describe sets what the status says of the results and the error of the failed step, if any, and returns the error of all.
func (s *configScope) describe(err error) error {
	now := &s.soc.Status
	now.ObservedGeneration = s.soc.Generation
	if s.collection != nil && err == nil {
		s.describeInstallations(now)
	}
	if s.holds != nil {
		upgradecheck.SetUpgradeBlocked(&now.Conditions, s.soc.Generation, s.upgradeBlock())
	}
	err = s.join(err)
	status.SetReady(&now.Conditions, s.soc.Generation, err, s.readyMessage())
	now.Message = status.ReadyMessage(now.Conditions)
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	return err
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

// describeInstallations sets version and digest once all namespaces have them, warnings once all are applied as planned, and the object
// names that clients read.
func (s *configScope) describeInstallations(now *v2beta2.SubOperatorConfigStatus) {
	if !slices.ContainsFunc(s.results, s.isOutdated) {
		now.Version, now.Digest = s.collection.Version.String(), s.oc.Status.Artifact.Digest
	} else if s.foreseen != nil {
		now.Version, now.Digest = s.former.version, s.former.digest
	}
	if !slices.ContainsFunc(s.results, func(r install.Result) bool { return !r.Applied && mapping.Contains(s.mappings, r.Namespace) }) {
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
			Metadata: v2beta2.NamedObjectMeta{Name: resource.Plural() + "." + imports.GroupOf(s.oc, s.collection)},
		})
	}
}

// isOutdated reports whether a mapped namespace does not have what the OperatorCollection has imported.
func (s *configScope) isOutdated(result install.Result) bool {
	return mapping.Contains(s.mappings, result.Namespace) &&
		(!result.Applied || result.Status.Digest != s.oc.Status.Artifact.Digest)
}

// namesInOLM returns the names of the ClusterServiceVersion and the package, if OLM installed the operator in any namespace.
func (s *configScope) namesInOLM() (*v2beta2.NamedObject, []string) {
	if !slices.ContainsFunc(s.results, func(r install.Result) bool { return r.Applied && r.Status.Install == v2beta2.InstallOLM }) {
		return nil, nil
	}
	return &v2beta2.NamedObject{Metadata: v2beta2.NamedObjectMeta{Name: s.collection.CSVName()}}, []string{s.collection.OperatorName()}
}

// boundWarnings sorts warnings, removes duplicates from several namespaces, and cuts the list after [upgradecheck.MaxWarnings].
func boundWarnings(warnings []string) []string {
	warnings = slices.Compact(slices.Sorted(slices.Values(warnings)))
	if len(warnings) <= upgradecheck.MaxWarnings {
		return warnings
	}
	return append(warnings[:upgradecheck.MaxWarnings:upgradecheck.MaxWarnings], fmt.Sprintf("%d more warnings", len(warnings)-upgradecheck.MaxWarnings))
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
