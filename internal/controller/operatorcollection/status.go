package operatorcollection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// statusWriter writes the status of OperatorCollections.
type statusWriter struct {
	Client       client.Client
	Recorder     events.EventRecorder
	Source       *intake.Source
	Publications *imports.Publications
}

// patchStatus writes the status that follows from the scope and the error of the last step. It is the only place that turns
// errors into conditions.
func (w *statusWriter) patchStatus(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, err error) (ctrl.Result, error) {
	if oc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer is removed, and so is the object.
	}
	if errors.Is(err, imports.ErrBehind) && oc.Status.Artifact != nil {
		return status.Result(err) // The status stays: what is imported runs, and nothing was found out about it.
	}
	err = retryUntilNextCheck(oc, err)
	before := oc.DeepCopy()
	err = w.describe(oc, scope, err)
	writer := status.Writer{Client: w.Client, Recorder: w.Recorder, Action: "Reconcile", BecameReady: metrics.BecameReady("OperatorCollection")}
	result, err := writer.Write(ctx, oc, before, err)
	if err == nil && result.RequeueAfter == 0 {
		result.RequeueAfter = w.Source.NextCheck(oc)
	}
	return scope.atLeast(result, err)
}

// retryUntilNextCheck makes an error that only a change of the spec could resolve into one that a later check may resolve.
func retryUntilNextCheck(oc *v2beta2.OperatorCollection, err error) error {
	if s := status.AsError(err); s != nil && s.Stalled && oc.Spec.Interval != nil {
		return &status.Error{Reason: s.Reason, RetryAfter: pace.Jitter(oc.Spec.Interval.Duration), Err: s.Err}
	}
	return err
}

// describe sets the status. It returns the error of the last step, or else the reason why the version is not installed.
func (w *statusWriter) describe(oc *v2beta2.OperatorCollection, scope *importScope, err error) error {
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
		w.describeImport(oc, scope, err)
		w.Source.DescribePodCopy(oc)
		w.Publications.Describe(oc)
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
func (s *importScope) describeCollection(oc *v2beta2.OperatorCollection) {
	if !s.Accepted {
		return
	}
	c := s.collection
	s.keepUpgradeWarnings(oc)
	s.recordVersion(oc)
	oc.Status.Artifact = s.Artifact
	oc.Status.Collection = &v2beta2.ImportedCollection{
		Domain: c.Domain, Name: c.Name, Version: c.Version.String(),
		APIVersion: imports.GroupOf(oc, c) + "/" + c.APIVersion(), Kinds: kinds(c),
	}
	oc.Status.Replaces = imports.ReplacedReference(c)
	if s.UploadPath != "" {
		oc.Status.Config = &v2beta2.CollectionConfigStatus{CollectionPath: s.UploadPath}
	}
	oc.Status.Warnings = warnings(oc, s)
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
func (w *statusWriter) describeImport(oc *v2beta2.OperatorCollection, scope *importScope, err error) {
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

// describeUpgrade sets status.upgrade while the version is not in all namespaces.
func (s *importScope) describeUpgrade(oc *v2beta2.OperatorCollection) {
	if s.upgrade == nil {
		return
	}
	oc.Status.Upgrade = nil
	if s.upgrade.Over {
		return
	}
	reason := v2beta2.ReasonUpgradePending
	if s.upgrade.Stopped {
		reason = v2beta2.ReasonUpgradeStopped
	}
	oc.Status.Upgrade = &v2beta2.UpgradeStatus{
		Digest: oc.Status.Artifact.Digest, Total: int32(s.upgrade.Total), Upgraded: int32(s.upgrade.Upgraded),
		Namespaces: s.upgrade.Began, Reason: reason, Message: status.Message(s.upgrade.Message),
	}
}

// notUpgraded returns the reason why the version is not installed everywhere, or nil. During an upgrade of several namespaces it says
// how far that is.
func (s *importScope) notUpgraded(oc *v2beta2.OperatorCollection) error {
	if upgrade := oc.Status.Upgrade; upgrade != nil && upgrade.Total > 1 {
		return status.Waiting(upgrade.Reason, status.Watched, "%s", rollout.ProgressOf(oc))
	}
	return notInstalled(s.configs, oc.Status.Artifact.Digest)
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

// blocked returns why custom resources block the upgrade of the OperatorCollection, or of a namespace, or nil.
func (s *importScope) blocked(err error) error {
	if blocked := upgradecheck.UpgradeBlock(err); blocked != nil || s == nil {
		return blocked
	}
	for _, soc := range s.configs {
		if condition := meta.FindStatusCondition(soc.Status.Conditions, v2beta2.ConditionUpgradeBlocked); condition != nil {
			return fmt.Errorf("SubOperatorConfig %q: %s", soc.Name, condition.Message)
		}
	}
	return nil
}

// again is when to reconcile again at the latest: to decide the upgrade, and to make other managers copy the archive. Zero means that only a
// change matters.
func (s *importScope) again() time.Duration {
	var again time.Duration
	if s != nil && s.upgrade != nil {
		again = s.upgrade.Again
	}
	if s != nil && s.copiesAgain > 0 && (again == 0 || again > s.copiesAgain) {
		again = s.copiesAgain
	}
	return again
}

// atLeast reconciles again in time, also after an error that would not be retried.
func (s *importScope) atLeast(result ctrl.Result, err error) (ctrl.Result, error) {
	again := s.again()
	if again == 0 {
		return result, err
	}
	if err != nil && !errors.Is(err, reconcile.TerminalError(nil)) {
		return result, err
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > again {
		result.RequeueAfter = again
	}
	return result, nil
}
