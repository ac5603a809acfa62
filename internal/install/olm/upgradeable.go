package olm

import (
	"context"
	"fmt"

	"github.com/Masterminds/semver/v3"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
