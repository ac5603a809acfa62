package operatorcollection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// patchStatus writes the status that follows from the scope and the error of the last step. It is the only place that turns
// errors into conditions.
func (r *Reconciler) patchStatus(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, err error) (ctrl.Result, error) {
	if oc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer is removed, and so is the object.
	}
	err = retryUntilNextCheck(oc, err)
	before := oc.DeepCopy()
	err = r.describe(oc, scope, err)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile", BecameReady: metrics.BecameReady("OperatorCollection")}
	result, err := writer.Write(ctx, oc, before, err)
	r.Imports.Wrote(oc)
	if err == nil && result.RequeueAfter == 0 {
		result.RequeueAfter = r.Source.NextCheck(oc)
	}
	return scope.atLeast(result, err)
}

// describe sets the status. It returns the error of the last step, or else the reason why the version is not installed.
func (r *Reconciler) describe(oc *v2beta2.OperatorCollection, scope *importScope, err error) error {
	generation := oc.Generation
	now := &oc.Status
	now.ObservedGeneration = generation
	if scope != nil {
		oc.Status.ObservedUpload = scope.upload.String()
		scope.describeCollection(oc)
		if scope.awaited != nil {
			oc.Status.Replaces = imports.ReplacedReference(scope.collection)
		}
		scope.describeUpgrade(oc)
		r.describeImport(oc, scope, err)
		r.Source.DescribePodCopy(oc)
		r.Publications.Describe(oc)
	}
	if err == nil {
		err = scope.notUpgraded(oc)
		status.SetCondition(&now.Conditions, v2beta2.ConditionInstalled, generation, err, installedMessage(scope.configs))
	}
	if err == nil || status.Is(err) {
		upgradecheck.SetUpgradeBlocked(&now.Conditions, generation, scope.blocked(err))
	}
	status.SetReady(&now.Conditions, generation, err, readyCollection(now))
	settleVersion(now)
	now.Message = status.ReadyMessage(now.Conditions)
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionImported)
	return err
}

// describeCollection records the accepted archive and its content.
func (f *importScope) describeCollection(oc *v2beta2.OperatorCollection) {
	if !f.Accepted {
		return
	}
	c := f.collection
	f.keepUpgradeWarnings(oc)
	f.recordVersion(oc)
	oc.Status.Artifact = f.Artifact
	oc.Status.Collection = &v2beta2.ImportedCollection{
		Domain: c.Domain, Name: c.Name, Version: c.Version.String(),
		APIVersion: imports.GroupOf(oc, c) + "/" + c.APIVersion(), Kinds: kinds(c),
	}
	oc.Status.Replaces = imports.ReplacedReference(c)
	if f.UploadPath != "" {
		oc.Status.Config = &v2beta2.CollectionConfigStatus{CollectionPath: f.UploadPath}
	}
	oc.Status.Warnings = warnings(oc, f)
	status.SetCondition(&oc.Status.Conditions, v2beta2.ConditionConformant, oc.Generation, conformance(c), "no rule is broken")
}

// conformance is nil if the collection breaks no rule.
func conformance(c *model.Collection) error {
	findings := c.Problems.Findings()
	if len(findings) == 0 {
		return nil
	}
	// The last of the lines says how many more problems there are.
	return status.Stalled(v2beta2.ReasonRulesBroken, errors.New(findings.Summary(imports.ProblemSummaryLines-1)))
}

// describeImport sets Imported and, where the steps got that far, the state of each SubOperatorConfig.
func (r *Reconciler) describeImport(oc *v2beta2.OperatorCollection, scope *importScope, err error) {
	now := &oc.Status
	if scope.imported {
		status.SetCondition(&now.Conditions, v2beta2.ConditionImported, oc.Generation, nil,
			fmt.Sprintf("version %s is verified and its CRDs are established", now.Collection.Version))
	} else {
		status.SetCondition(&now.Conditions, v2beta2.ConditionImported, oc.Generation, err, "")
	}
	if err != nil {
		return
	}
	now.SubOperatorConfigMappingStatus = nil
	for _, soc := range scope.configs {
		now.SubOperatorConfigMappingStatus = append(now.SubOperatorConfigMappingStatus,
			v2beta2.MappingStatus{Name: soc.Name, Phase: soc.Status.Phase, Message: soc.Status.Message})
	}
}

// notInstalled is nil when every SubOperatorConfig is Ready for its own present spec, and for the archive with this digest.
func notInstalled(socs []v2beta2.SubOperatorConfig, archive string) error {
	if len(socs) == 0 {
		return status.Waiting(v2beta2.ReasonNotInstalled, status.Watched, "no SubOperatorConfig names this OperatorCollection: create one to install it")
	}
	var problems []string
	reason := v2beta2.ReasonProgressing
	for _, soc := range socs {
		ready := meta.FindStatusCondition(soc.Status.Conditions, v2beta2.ConditionReady)
		switch {
		case ready == nil || ready.ObservedGeneration != soc.Generation:
			problems = append(problems, fmt.Sprintf("SubOperatorConfig %q is being installed", soc.Name))
		case ready.Status != metav1.ConditionTrue:
			reason = ready.Reason
			problems = append(problems, fmt.Sprintf("SubOperatorConfig %q: %s", soc.Name, ready.Message))
		case !hasInstalled(&soc, archive):
			problems = append(problems, fmt.Sprintf("SubOperatorConfig %q has version %s, and is being upgraded", soc.Name, soc.Status.Version))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return &status.Error{Reason: reason, RetryAfter: status.Watched, Err: fmt.Errorf("%s", strings.Join(problems, "; "))}
}

// hasInstalled reports whether a SubOperatorConfig has installed an archive. Earlier managers recorded the digest for each namespace
// alone.
func hasInstalled(soc *v2beta2.SubOperatorConfig, archive string) bool {
	if soc.Status.Digest != "" {
		return soc.Status.Digest == archive
	}
	return !slices.ContainsFunc(soc.Status.Installations, func(i v2beta2.InstallationStatus) bool { return i.Digest != archive })
}

func installedMessage(socs []v2beta2.SubOperatorConfig) string {
	var names []string
	for _, soc := range socs {
		names = append(names, soc.Name)
	}
	return "installed by " + strings.Join(names, ", ")
}

func readyCollection(status *v2beta2.OperatorCollectionStatus) string {
	if status.Collection == nil {
		return ""
	}
	return fmt.Sprintf("version %s is imported and installed", status.Collection.Version)
}

func kinds(c *model.Collection) []string {
	var names []string
	for _, resource := range c.Resources {
		names = append(names, resource.Kind)
	}
	slices.Sort(names)
	return names
}

func warnings(oc *v2beta2.OperatorCollection, f *importScope) []string {
	c := f.collection
	var texts []string
	if failure := f.CheckFailure(); failure != "" {
		texts = append(texts, "the source check failed, and will be tried again: "+failure)
	}
	texts = append(texts, f.unreplaced...)
	for _, lacking := range f.replicas.Reported {
		texts = append(texts, "not every manager has a copy of the archive: "+lacking)
	}
	if f.upload != "" && !imports.IsImported(oc, f.upload) && imports.PinnedVersion(oc) == "" {
		texts = append(texts, fmt.Sprintf("the archive with the digest %s, which was uploaded, is not on the manager's volume: upload it again", f.upload))
	}
	if oc.Spec.CollectionURLToken != "" {
		texts = append(texts, "spec.collectionURLToken can be read by everyone who may read this object: use spec.credentialsSecret")
	}
	texts = append(texts, f.upgradeWarnings...)
	if rewriting := crdplan.Rewritten(f.definitions); rewriting != "" {
		texts = append(texts, rewriting)
	}
	findings := c.Problems.Findings()
	for i, problem := range findings {
		if i == upgradecheck.MaxWarnings {
			texts = append(texts, fmt.Sprintf("%d more warnings", len(findings)-upgradecheck.MaxWarnings))
			break
		}
		texts = append(texts, problem.String())
	}
	return texts
}
