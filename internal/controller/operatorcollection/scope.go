package operatorcollection

import (
	"context"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
)

// importScope is what the steps of one reconcile share, and what status is computed from.
type importScope struct {
	// Archive is the one that the spec asks for.
	intake.Archive
	// upload is the digest of the archive that the upload endpoint received last, or empty.
	upload digest.Digest
	// collection is an outline of what the archive holds.
	collection *model.Collection
	// loaded is all of it, if the CRDs were planned.
	loaded *model.Collection
	// others are the other OperatorCollections that have it.
	others []v2beta2.OperatorCollection
	// definitions are the collection's CRDs.
	definitions []apiextensionsv1.CustomResourceDefinition
	// planned says that they are as they should be for the archive, according to the last plan. Then there is no other one.
	planned bool
	// plan is how the collection's CRDs should be.
	plan []crd.Planned
	// upgradeWarnings say what the archive means for custom resources that exist, if it replaces another one.
	upgradeWarnings []string
	// awaited is what a collection waits for that replaces another one, or nil.
	awaited error
	// unreplaced describes what such a collection does not take over.
	unreplaced []string
	// historyRoom limits the size in bytes of the archives that are only in status.history. Nil means no limit.
	historyRoom *int64
	// awaitedCopies name the other managers that lack the archive and are waited for, if it cannot be fetched again, and missingCopies those that
	// are not waited for any more.
	awaitedCopies, missingCopies []string
	// copiesAgain is when the other managers are asked for the archive again, if it cannot be fetched again.
	copiesAgain time.Duration
	// imported says that the collection's CRDs are Established too, and that the other managers have an archive that was uploaded.
	imported bool
	// upgrade is how the version is brought to the namespaces, or nil if that was not decided.
	upgrade *rollout.Decision
	// configs are the SubOperatorConfigs that name the collection, and areLive says that they were not read from the cache.
	configs []v2beta2.SubOperatorConfig
	areLive bool
}

func kinds(c *model.Collection) []string {
	var names []string
	for _, resource := range c.Resources {
		names = append(names, resource.Kind)
	}
	slices.Sort(names)
	return names
}

// readConfigs reads the SubOperatorConfigs that name the collection, live or from the cache.
func (s *importScope) readConfigs(ctx context.Context, oc *v2beta2.OperatorCollection, reader client.Reader, live bool) error {
	var err error
	s.configs, err = imports.SubOperatorConfigsOf(ctx, reader, oc)
	s.areLive = err == nil && live
	return err
}
