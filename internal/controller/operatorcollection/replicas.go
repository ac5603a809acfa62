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
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

const (
	// copyTimeout is how long an import waits until another manager that answers has a copy of the archive, and unresponsiveTimeout how long
	// it waits for one that does not: less than clients wait for status.phase.
	copyTimeout, unresponsiveTimeout = 5 * time.Minute, 10 * time.Second
	// copyInterval is how soon the other managers are asked again while an import waits, at first.
	copyInterval = time.Second
	// missingCopy begins the warning about a manager for which the import did not wait longer.
	missingCopy = "not every manager has a copy of the archive: "
)

// checkReplicas makes the other managers copy an archive that was uploaded, and finds out which of them lack it. All others can be fetched
// again. They copy what a status names, so it is accepted before.
func (s *importScope) checkReplicas(ctx context.Context, oc *v2beta2.OperatorCollection, peers *replica.Peers) error {
	if oc.Spec.CollectionURL != "" || peers == nil {
		s.missingCopies = nil
		return nil
	}
	missing, err := peers.Missing(ctx, digest.Digest(s.Artifact.Digest))
	if err == nil {
		s.setMissing(oc, missing)
	}
	return err
}

// keepCopyWarnings keeps those in status until the other managers are asked again.
func (s *importScope) keepCopyWarnings(oc *v2beta2.OperatorCollection) {
	if !imports.IsImported(oc, digest.Digest(s.Artifact.Digest)) {
		return
	}
	for _, warning := range oc.Status.Warnings {
		if missing, found := strings.CutPrefix(warning, missingCopy); found {
			s.missingCopies = append(s.missingCopies, missing)
		}
	}
}

// setMissing decides for which of the managers that lack the archive the import waits. An archive that was imported already remains so if one
// of them loses it.
func (s *importScope) setMissing(oc *v2beta2.OperatorCollection, missing []replica.Missing) {
	imported := s.Installed.IsZero() && meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionImported)
	former := s.missingCopies
	s.missingCopies = nil
	for _, each := range missing {
		limit := copyTimeout
		if each.Unresponsive {
			limit = unresponsiveTimeout
		}
		lackedIt := slices.ContainsFunc(former, func(warning string) bool { return strings.HasPrefix(warning, each.Name()) })
		switch {
		case !imported && sinceAccepted(oc) < limit:
			s.awaitedCopies = append(s.awaitedCopies, each.String())
		case imported && each.Unresponsive && !lackedIt:
			// It had a copy, and may just be starting.
		default:
			s.missingCopies = append(s.missingCopies, each.String())
		}
	}
	s.copiesAgain = pace.Jitter(intervals.Copies)
	if len(s.missingCopies) > 0 {
		s.copiesAgain = intervals.Missing
	}
}

// sinceAccepted is the age of the newest entry of status.history.
func sinceAccepted(oc *v2beta2.OperatorCollection) time.Duration {
	if len(oc.Status.History) == 0 {
		return 0
	}
	return time.Since(oc.Status.History[0].Time.Time)
}

// awaitReplicas waits, for a time, until the other managers have copied the archive.
func awaitReplicas(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if len(scope.awaitedCopies) > 0 {
		return status.Waiting(v2beta2.ReasonReplicating, status.Later(copyInterval, sinceAccepted(oc)),
			"waiting until every manager has a copy of the archive: %s", strings.Join(scope.awaitedCopies, ", "))
	}
	scope.imported = true
	return nil
}
