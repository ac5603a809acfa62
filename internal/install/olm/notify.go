package olm

import (
	"context"
	"fmt"

	"github.com/Masterminds/semver/v3"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// reasonVersionPinned signals in an OperatorCondition that an OperatorCollection determines the version.
const reasonVersionPinned = "VersionPinned"

// Notify reports in the OperatorConditions of the collection whether OLM may upgrade its ClusterServiceVersions, and
// lets it apply a new configuration of the pods. The conditions are kept while work is in
// progress, and after an error that is retried.
func (b *Backend) Notify(ctx context.Context, i *install.Installation, plan *install.Plan, err error) error {
	if plan != nil {
		if err := b.rollUserManaged(ctx, i.Collection.CSVName(), plan.RuntimeHash); err != nil {
			return err
		}
		if err := b.reinstall(ctx, i, plan); err != nil {
			return err
		}
	}
	refused, known := upgradeRefusal(i, plan != nil, err)
	if !known {
		return nil
	}
	gate := upgradeGate{
		soc:        fmt.Sprintf("SubOperatorConfig %q in namespace %q", i.Owner.Name, i.Owner.Namespace),
		oc:         fmt.Sprintf("OperatorCollection %q", i.OperatorCollection.Name),
		collection: i.Collection,
		follows:    !b.userManaged || b.subscription.Spec.Channel == render.ChannelName(i.Collection),
		csvs:       b.csvs,
		refused:    refused,
		applied:    plan != nil && i.Held == nil,
	}
	for n := range b.csvs {
		err := SetCondition(ctx, b.cluster.Reader, b.cluster.Client, client.ObjectKeyFromObject(&b.csvs[n]), gate.condition(&b.csvs[n]))
		// OLM creates it before the ClusterServiceVersion succeeds, which triggers a reconcile.
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// upgradeRefusal returns the reason why no other version would be installed, or nil if one would. The answer is not known
// after an error that signals progress or is retried.
func upgradeRefusal(i *install.Installation, applied bool, err error) (refused *status.Error, known bool) {
	if held := status.AsError(i.Held); held != nil {
		return held, held.Reason != v2beta2.ReasonUnexpectedError
	}
	if applied {
		return importRefusal(i.OperatorCollection), true
	}
	refused = status.AsError(err)
	if refused == nil || status.IsProgress(refused.Reason) || refused.Reason == v2beta2.ReasonApplyFailed || refused.Reason == v2beta2.ReasonUnexpectedError {
		return nil, false
	}
	return refused, true
}

// rollUserManaged annotates the pods of a user-managed Subscription, and changes nothing else of it.
func (b *Backend) rollUserManaged(ctx context.Context, version, hash string) error {
	wanted := b.wantedAnnotation(version, hash)
	if !b.userManaged || wanted == b.annotation() {
		return nil
	}
	before := b.subscription.DeepCopy()
	b.subscription.Spec.Config = annotated(b.subscription.Spec.Config, wanted)
	if err := b.cluster.Client.Patch(ctx, b.subscription, client.MergeFrom(before), client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("annotating the pods of Subscription %q: %w", client.ObjectKeyFromObject(b.subscription), err)
	}
	return nil
}

// upgradeGate decides whether OLM may replace ClusterServiceVersions of a collection in one namespace.
type upgradeGate struct {
	// soc and oc describe the objects that request the version, for messages.
	soc, oc string
	// collection is the requested version.
	collection *model.Collection
	// follows is true if the Subscription's channel ends with that version.
	follows bool
	// csvs are the ClusterServiceVersions of the collection.
	csvs []operatorsv1alpha1.ClusterServiceVersion
	// refused is the reason why no other version would be installed, or nil.
	refused *status.Error
	// applied is true if the requested version is installed or being installed. Then only versions after it can be refused.
	applied bool
}

// condition returns the Upgradeable condition for a ClusterServiceVersion. If the channel continues after the requested
// version, upgrades are refused by default: OLM may process a new entry before the manager can refuse it.
func (g *upgradeGate) condition(csv *operatorsv1alpha1.ClusterServiceVersion) metav1.Condition {
	switch next := g.replacement(csv); {
	case g.refused != nil && (!g.applied || !older(csv, g.collection.Version)):
		return NotUpgradeable(g.refused.Reason, "%s would not run another version: %s", g.soc, g.refused)
	case g.follows, next != nil && !newer(next, g.collection.Version):
		return Upgradeable("%s allows upgrades to version %s of %s", g.soc, g.collection.Version, g.oc)
	case next != nil:
		return NotUpgradeable(reasonVersionPinned, "%s runs version %s because %s has it, and not %s: change that one to upgrade",
			g.soc, g.collection.Version, g.oc, next.Spec.Version)
	}
	return NotUpgradeable(reasonVersionPinned, "%s runs version %s because %s has it: change that one to upgrade",
		g.soc, g.collection.Version, g.oc)
}

// replacement returns the ClusterServiceVersion with which OLM is about to replace another one, or nil.
func (g *upgradeGate) replacement(csv *operatorsv1alpha1.ClusterServiceVersion) *operatorsv1alpha1.ClusterServiceVersion {
	for i := range g.csvs {
		if g.csvs[i].Spec.Replaces == csv.Name {
			return &g.csvs[i]
		}
	}
	return nil
}

// newer reports whether a ClusterServiceVersion is newer than a version. An invalid version counts as newer.
func newer(csv *operatorsv1alpha1.ClusterServiceVersion, version *semver.Version) bool {
	has, err := semver.NewVersion(csv.Spec.Version.String())
	return err != nil || has.GreaterThan(version)
}

// older reports whether a ClusterServiceVersion is older than a version. An invalid version does not count as older.
func older(csv *operatorsv1alpha1.ClusterServiceVersion, version *semver.Version) bool {
	has, err := semver.NewVersion(csv.Spec.Version.String())
	return err == nil && has.LessThan(version)
}

// importRefusal returns the reason why an OperatorCollection does not import the archive of its spec, or nil.
func importRefusal(oc *v2beta2.OperatorCollection) *status.Error {
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	if imported == nil || imported.Status != metav1.ConditionFalse || status.IsProgress(imported.Reason) {
		return nil
	}
	return &status.Error{Reason: imported.Reason, Err: fmt.Errorf("OperatorCollection %q: %s", oc.Name, imported.Message)}
}

// ConditionVariable is the environment variable with which OLM tells an operator the name of its OperatorCondition. That is in the
// namespace of the operator, which may get and patch it.
const ConditionVariable = "OPERATOR_CONDITION_NAME"

// SetCondition updates a condition in an OperatorCondition, which OLM creates for each ClusterServiceVersion, unless it is as wanted. OLM
// copies the condition from spec to status before it reads it, and an outdated copy also blocks an upgrade. Administrators can override
// the condition in spec.overrides. The OperatorCondition is read with reader. It is an error if it does not exist.
func SetCondition(ctx context.Context, reader client.Reader, writer client.Writer, key client.ObjectKey, wanted metav1.Condition) error {
	condition := &operatorsv2.OperatorCondition{}
	if err := reader.Get(ctx, key, condition); err != nil {
		return fmt.Errorf("reading OperatorCondition %q: %w", key, err)
	}
	is := meta.FindStatusCondition(condition.Spec.Conditions, wanted.Type)
	if is != nil && is.Status == wanted.Status && is.Reason == wanted.Reason && is.Message == wanted.Message {
		return nil
	}
	before := condition.DeepCopy()
	meta.SetStatusCondition(&condition.Spec.Conditions, wanted)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := writer.Patch(ctx, condition, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("writing OperatorCondition %q: %w", key, err)
	}
	return nil
}

// Upgradeable returns the condition of an operator that OLM may replace.
func Upgradeable(format string, args ...any) metav1.Condition {
	return upgradeable(metav1.ConditionTrue, v2beta2.ReasonSucceeded, format, args...)
}

// NotUpgradeable returns the condition of an operator that OLM must not replace.
func NotUpgradeable(reason, format string, args ...any) metav1.Condition {
	return upgradeable(metav1.ConditionFalse, reason, format, args...)
}

func upgradeable(is metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: operatorsv2.Upgradeable, Status: is, Reason: reason, Message: status.Message(fmt.Sprintf(format, args...))}
}

// maxAsked is how many ClusterServiceVersions are remembered for which OLM was asked to install again.
const maxAsked = 1000

// reinstall asks OLM to apply the config of the Subscription, as OLM does by itself when pods are still not ready after five minutes.
// Until then, OLM compares the Deployment with the config only once it is available: pods that cannot start would not get a
// corrected configuration. It asks once for each configuration. Without the permission, nothing happens.
func (b *Backend) reinstall(ctx context.Context, i *install.Installation, plan *install.Plan) error {
	csv := b.csv(i.Collection.CSVName())
	if !b.needsReinstall(csv, plan.RuntimeHash) || b.cluster.hasAsked(csv.UID, plan.RuntimeHash) {
		return nil
	}
	before := csv.DeepCopy()
	now := metav1.Now()
	csv.SetPhase(operatorsv1alpha1.CSVPhasePending, operatorsv1alpha1.CSVReasonNeedsReinstall, "the config of the Subscription has changed", &now)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := b.cluster.Client.Status().Patch(ctx, csv, patch, client.FieldOwner(apply.FieldOwner)); {
	case err == nil, apierrors.IsForbidden(err):
		b.cluster.reinstalls().Add(csv.UID, plan.RuntimeHash)
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // The change of the ClusterServiceVersion brings the next look.
	default:
		return fmt.Errorf("writing the status of ClusterServiceVersion %q: %w", client.ObjectKeyFromObject(csv), err)
	}
	return nil
}

// needsReinstall reports whether OLM waits for pods whose configuration is not the planned one, which the Subscription has already.
func (b *Backend) needsReinstall(csv *operatorsv1alpha1.ClusterServiceVersion, hash string) bool {
	if csv == nil || b.deployment == nil || b.installedCSV() != csv.Name || b.annotation() != b.wantedAnnotation(csv.Name, hash) {
		return false
	}
	return csv.Status.Phase == operatorsv1alpha1.CSVPhaseInstalling && render.RuntimeHash(b.deployment.Spec.Template.Annotations) != hash
}

// hasAsked reports whether OLM was asked last to install a ClusterServiceVersion again for this configuration.
func (c *Cluster) hasAsked(csv types.UID, hash string) bool {
	before, _ := c.reinstalls().Get(csv)
	return before == hash
}

// reinstalls has the hash of the configuration for which OLM was asked last to install a ClusterServiceVersion again, by its UID.
func (c *Cluster) reinstalls() *lru.Cache {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = lru.New(maxAsked)
	}
	return c.asked
}
