package operatorcollection

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Budgets limit what OperatorCollections use. What is imported stays, whatever the limits are.
type Budgets struct {
	// Kinds limits the number of different kinds that are imported.
	Kinds budget.Limits
	// StoredBytes limits the size of the different archives that are imported in all namespaces, or is zero.
	StoredBytes int64
	// CRDVersions is the maximum number of versions of a CRD, or zero. Unused ones are retired, but only after months.
	CRDVersions int

	// accepting makes the check and the acceptance of an archive one step.
	accepting sync.Mutex
	// waiting has the *collectionNeeds of each OperatorCollection that waits for a budget, by its [client.ObjectKey].
	waiting sync.Map
}

// collectionNeeds are what a collection needs of each budget.
type collectionNeeds struct{ kinds, archives budget.Items }

func (n collectionNeeds) equal(others collectionNeeds) bool {
	return maps.Equal(n.kinds, others.kinds) && maps.Equal(n.archives, others.archives)
}

func (b *Budgets) kinds() budget.Budget {
	return budget.Budget{Limits: b.Kinds, Name: "kinds", Flag: "--max-kinds"}
}

func (b *Budgets) archives() budget.Budget {
	return budget.Budget{Limits: budget.Limits{Total: b.StoredBytes}, Name: "stored archives", Flag: "--max-stored-bytes", Format: budget.MiB}
}

// importedNeeds are what an OperatorCollection uses.
func importedNeeds(oc *v2beta2.OperatorCollection) collectionNeeds {
	if oc.Status.Artifact == nil || oc.Status.Collection == nil {
		return collectionNeeds{}
	}
	needs := collectionNeeds{kinds: budget.Items{}, archives: budget.Items{oc.Status.Artifact.Digest: oc.Status.Artifact.Size}}
	group, _, _ := strings.Cut(oc.Status.Collection.APIVersion, "/")
	for _, kind := range oc.Status.Collection.Kinds {
		needs.kinds[group+"/"+kind] = 1
	}
	return needs
}

// wantedNeeds are what an OperatorCollection will use when the archive of the scope is accepted.
func wantedNeeds(oc *v2beta2.OperatorCollection, scope *importScope) collectionNeeds {
	needs := collectionNeeds{kinds: budget.Items{}, archives: budget.Items{scope.Artifact.Digest: scope.Artifact.Size}}
	for _, kind := range kinds(scope.collection) {
		needs.kinds[imports.GroupOf(oc, scope.collection)+"/"+kind] = 1
	}
	return needs
}

// oldestFirst sorts OperatorCollections by age. Own replaces the copy of the same object, or is added.
func oldestFirst(all []v2beta2.OperatorCollection, own *v2beta2.OperatorCollection) []*v2beta2.OperatorCollection {
	sorted := []*v2beta2.OperatorCollection{own}
	for i := range all {
		if all[i].UID != own.UID {
			sorted = append(sorted, &all[i])
		}
	}
	slices.SortFunc(sorted, func(a, b *v2beta2.OperatorCollection) int {
		if mapping.Older(a, b) {
			return -1
		}
		return 1
	})
	return sorted
}

func indexOf(all []*v2beta2.OperatorCollection, own *v2beta2.OperatorCollection) int {
	return slices.IndexFunc(all, func(oc *v2beta2.OperatorCollection) bool { return oc.UID == own.UID })
}

// check remembers what the OperatorCollection wants if it has to wait for it.
func (b *Budgets) check(all []*v2beta2.OperatorCollection, own *v2beta2.OperatorCollection, wants collectionNeeds) error {
	ofKinds, ofArchives := make([]budget.Claim, len(all)), make([]budget.Claim, len(all))
	for i, oc := range all {
		has, needs := importedNeeds(oc), collectionNeeds{}
		if found, ok := b.waiting.Load(client.ObjectKeyFromObject(oc)); ok {
			needs = *found.(*collectionNeeds)
		}
		if oc.UID == own.UID {
			needs = wants
		}
		ofKinds[i] = budget.Claim{Namespace: oc.Namespace, Held: has.kinds, Wanted: needs.kinds}
		ofArchives[i] = budget.Claim{Namespace: oc.Namespace, Held: has.archives, Wanted: needs.archives}
	}
	index := indexOf(all, own)
	err := status.Join(status.BudgetExceeded(b.kinds().Check(ofKinds, index)), status.BudgetExceeded(b.archives().Check(ofArchives, index)))
	if err != nil {
		b.waiting.Store(client.ObjectKeyFromObject(own), &wants)
	}
	return err
}

// checkVersions refuses another version of a CRD that has too many.
func (b *Budgets) checkVersions(scope *importScope) error {
	for _, planned := range scope.plan {
		before, after := 0, len(planned.CRD.Spec.Versions)
		if planned.Live != nil {
			before = len(planned.Live.Spec.Versions)
		}
		if b.CRDVersions > 0 && after > b.CRDVersions && after > before {
			return status.BudgetExceeded(fmt.Errorf(
				"the budget of versions of CRD %q is exceeded: %d of %d are used and %d more is needed: versions that nothing uses end with time; ask an administrator to raise --max-crd-versions, or to lower --version-retention",
				planned.CRD.Name, before, b.CRDVersions, after-before))
		}
	}
	return nil
}

// historyRoom returns how many bytes the archives that are only in the history of an OperatorCollection may have: what imported
// archives, and the histories of the other OperatorCollections, leave of the budget. It is nil without a budget.
func (b *Budgets) historyRoom(all []v2beta2.OperatorCollection, own *v2beta2.OperatorCollection, accepted *v2beta2.Artifact) *int64 {
	if b.StoredBytes <= 0 {
		return nil
	}
	used := budget.Items{accepted.Digest: accepted.Size}
	for i := range all {
		oc := &all[i]
		if oc.UID == own.UID {
			continue
		}
		maps.Copy(used, importedNeeds(oc).archives)
		for _, entry := range oc.Status.History {
			used[entry.Digest] = entry.Size
		}
	}
	return new(b.StoredBytes - used.Sum())
}

// settle forgets what an OperatorCollection waits for, unless err says that it still does.
func (b *Budgets) settle(key client.ObjectKey, err error) {
	var failed *status.Error
	if !errors.As(err, &failed) || failed.Reason != v2beta2.ReasonBudgetExceeded {
		b.waiting.Delete(key)
	}
}

// Measure returns how much is used of the budgets of OperatorCollections, and of that of probed ZosEndpoints, from the cache.
func (b *Budgets) Measure(ctx context.Context, reader client.Reader, probed budget.Limits) ([]metrics.Budget, error) {
	ocs, endpoints := &v2beta2.OperatorCollectionList{}, &v2beta2.ZosEndpointList{}
	for _, list := range []client.ObjectList{ocs, endpoints} {
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	kinds, bytes := newUse("kinds", b.Kinds), newUse("stored_bytes", budget.Limits{Total: b.StoredBytes})
	probes := newUse("probed_endpoints", probed)
	for i := range ocs.Items {
		oc := &ocs.Items[i]
		if oc.Status.Artifact == nil {
			continue
		}
		needs := importedNeeds(oc)
		kinds.add(oc.Namespace, needs.kinds)
		bytes.add(oc.Namespace, needs.archives)
	}
	for i := range endpoints.Items {
		if e := &endpoints.Items[i]; e.Spec.EndpointType != v2beta2.EndpointLocal && endpoint.IsProbed(e) {
			probes.add(e.Namespace, budget.Items{string(e.UID): 1})
		}
	}
	return []metrics.Budget{kinds.sum(), bytes.sum(), probes.sum()}, nil
}

// use is what is used of a budget. What several objects share counts once, as in [budget.Budget].
type use struct {
	name   string
	limits budget.Limits
	total  budget.Items
	each   map[string]budget.Items
}

func newUse(name string, limits budget.Limits) *use {
	return &use{name: name, limits: limits, total: budget.Items{}, each: map[string]budget.Items{}}
}

func (u *use) add(namespace string, items budget.Items) {
	if u.each[namespace] == nil {
		u.each[namespace] = budget.Items{}
	}
	for name, amount := range items {
		u.each[namespace][name], u.total[name] = amount, amount
	}
}

func (u *use) sum() metrics.Budget {
	sum := metrics.Budget{
		Name: u.name, Used: u.total.Sum(), Limit: u.limits.Total, NamespaceLimit: u.limits.PerNamespace, PerNamespace: map[string]int64{},
	}
	for namespace, items := range u.each {
		sum.PerNamespace[namespace] = items.Sum()
	}
	return sum
}
