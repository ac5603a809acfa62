package operatorcollection

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

const (
	// copyTimeout is how long an import waits until another manager that answers has a copy of the archive, and unresponsiveTimeout how long
	// it waits for one that does not: less than clients wait for status.phase.
	copyTimeout, unresponsiveTimeout = 5 * time.Minute, 10 * time.Second
	// copyInterval is how soon the other managers are asked again while an import waits.
	copyInterval = time.Second
	// missingCopy begins the warning about a manager for which the import did not wait longer.
	missingCopy = "not every manager has a copy of the archive: "
)

// replicas makes other managers have what cannot be fetched again.
type replicas struct{ Peers *replica.Peers }

// checkReplicas makes the other managers copy an archive that was uploaded, and finds out which of them lack it. All others can be fetched
// again.
func (r *replicas) checkReplicas(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if oc.Spec.CollectionURL != "" {
		return nil
	}
	missing, err := r.Peers.Missing(ctx, digest.Digest(scope.Artifact.Digest))
	for _, each := range missing {
		scope.addMissing(oc, each)
	}
	return err
}

// addMissing decides whether the import waits for a manager that lacks the archive. An archive that was imported already remains so if one of
// them loses it.
func (s *importScope) addMissing(oc *v2beta2.OperatorCollection, missing replica.Missing) {
	limit, waited := copyTimeout, time.Duration(0)
	if missing.Unresponsive {
		limit = unresponsiveTimeout
	}
	if history := oc.Status.History; len(history) > 0 && history[0].Digest == s.Artifact.Digest {
		waited = time.Since(history[0].Time.Time)
	}
	imported := imports.IsImported(oc, digest.Digest(s.Artifact.Digest)) && meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionImported)
	switch {
	case !imported && waited < limit:
		s.awaitedCopies = append(s.awaitedCopies, missing.String())
	case imported && missing.Unresponsive && !slices.Contains(oc.Status.Warnings, missingCopy+missing.String()):
		// It had a copy, and may just be starting.
	default:
		s.missingCopies = append(s.missingCopies, missing.String())
	}
}

// awaitReplicas waits, for a time, until the other managers have copied the archive.
func awaitReplicas(_ context.Context, _ *v2beta2.OperatorCollection, scope *importScope) error {
	if len(scope.awaitedCopies) > 0 {
		return status.Waiting(v2beta2.ReasonReplicating, copyInterval,
			"waiting until every manager has a copy of the archive: %s", strings.Join(scope.awaitedCopies, ", "))
	}
	scope.imported = true
	return nil
}
