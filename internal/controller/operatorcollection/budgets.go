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
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Budgets limit what OperatorCollections use. What is imported stays, whatever the limits are.
type Budgets struct {
	// Collections limits the number of OperatorCollections.
	Collections budget.Limits
	// Kinds limits the number of different kinds that are imported.
	Kinds budget.Limits
	// StoredBytes limits the size of the different archives that are imported.
	StoredBytes budget.Limits
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

func (b *Budgets) collections() budget.Budget {
	return budget.Budget{Limits: b.Collections, Name: "OperatorCollections", Flag: "--max-collections"}
}

func (b *Budgets) kinds() budget.Budget {
	return budget.Budget{Limits: b.Kinds, Name: "kinds", Flag: "--max-kinds"}
}

func (b *Budgets) archives() budget.Budget {
	return budget.Budget{Limits: b.StoredBytes, Name: "stored archives", Flag: "--max-stored-bytes", Format: budget.MiB}
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

// checkNumber refuses an OperatorCollection of which there are too many, before anything is fetched for it.
func (r *Reconciler) checkNumber(ctx context.Context, oc *v2beta2.OperatorCollection, _ *importScope) error {
	if oc.Status.Artifact != nil {
		return nil
	}
	imports, err := r.Imports.List(ctx)
	if err != nil {
		return err
	}
	all := oldestFirst(imports, oc)
	claims := make([]budget.Claim, len(all))
	for i := range all {
		one := budget.Items{string(all[i].UID): 1}
		claims[i] = budget.Claim{Namespace: all[i].Namespace, Wanted: one}
		if all[i].Status.Artifact != nil {
			claims[i].Held = one
		}
	}
	return status.BudgetExceeded(r.Budgets.collections().Check(claims, indexOf(all, oc)))
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

// checkNeeds refuses a collection that does not fit into the budgets, before its CRDs are planned, which takes long if it has many.
// [Reconciler.acceptWithinBudgets] decides.
func (r *Reconciler) checkNeeds(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	wants := wantedNeeds(oc, scope)
	if importedNeeds(oc).equal(wants) {
		return nil
	}
	all, err := r.Imports.List(ctx)
	if err != nil {
		return err
	}
	return r.Budgets.check(oldestFirst(all, oc), oc, wants)
}

// acceptWithinBudgets accepts the archive if the budgets allow what it needs.
func (r *Reconciler) acceptWithinBudgets(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	wants := wantedNeeds(oc, scope)
	if importedNeeds(oc).equal(wants) {
		return r.acceptArtifact(ctx, oc, scope)
	}
	r.Budgets.accepting.Lock()
	defer r.Budgets.accepting.Unlock()
	all, err := r.Imports.List(ctx)
	if err != nil {
		return err
	}
	if err := status.Join(r.Budgets.checkVersions(scope), r.Budgets.check(oldestFirst(all, oc), oc, wants)); err != nil {
		return err
	}
	scope.historyRoom = r.Budgets.historyRoom(all, oc, scope.Artifact)
	return r.acceptArtifact(ctx, oc, scope)
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

// settle forgets what an OperatorCollection waits for, unless err says that it still does.
func (b *Budgets) settle(key client.ObjectKey, err error) {
	var failed *status.Error
	if !errors.As(err, &failed) || failed.Reason != v2beta2.ReasonBudgetExceeded {
		b.waiting.Delete(key)
	}
}

// ofDeleted maps an OperatorCollection that is gone to those that wait for what it has used.
func (r *Reconciler) ofDeleted(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		for _, condition := range list.Items[i].Status.Conditions {
			if condition.Type == v2beta2.ConditionReady && condition.Reason == v2beta2.ReasonBudgetExceeded {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	}
	return requests
}

// onlyDeletions accepts the event that an object is gone.
var onlyDeletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}
