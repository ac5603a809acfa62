package operandrequest

import (
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// removal removes what nobody wants any more, or hands it over.
type removal struct {
	*cluster.Access
	mappings *mappings
	users    *users
	deleter  *deleter
}

// remove removes what the request does not want any more: first the resources, and once those of an operator are gone, the operator.
// What another request wants is handed over to it.
func (r *removal) remove(ctx context.Context, s *scope) error {
	if len(s.unwanted()) == 0 {
		return nil
	}
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	if err := s.loadOthers(ctx, r.Reader); err != nil {
		return err
	}
	var waiting []string
	var errs []error
	blocked := map[plan.ID]schema.GroupKind{} // By the kind that is awaited.
	removeAll := func(rank int) {
		unwanted := s.unwanted()
		for _, e := range slices.Backward(unwanted) {
			if rankOf(e) != rank || s.entry(e) == nil || isNeeded(s, unwanted, e) {
				continue
			}
			// What is removed may need what was created before it, such as a Secret. A copy that is revoked is removed at once.
			kind := schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind()
			isRevoked := e.Origin == v1alpha1.OriginBinding && s.request.DeletionTimestamp == nil
			if other, exists := blocked[plan.IDOf(e)]; exists && other != kind && !isRevoked {
				continue
			}
			awaited, err := r.removeEntry(ctx, s, e)
			switch {
			case err != nil:
				errs = append(errs, err)
			case awaited != "":
				waiting = append(waiting, awaited)
			default:
				s.drop(e)
				continue
			}
			blocked[plan.IDOf(e)] = kind
		}
	}
	for rank := range ranks {
		removeAll(rank)
	}
	if len(waiting) > 0 {
		errs = append(errs, status.Waiting(v1alpha1.ReasonRemovalWaiting, intervals.Missing, "waiting for %s", status.JoinNames(waiting)))
	}
	return status.Join(errs...)
}

// confirm plans again with live objects, also for other requests: after a restart, the cache may begin with an older state than the former
// process has seen, in which what was added since is missing.
func (r *removal) confirm(ctx context.Context, s *scope) error {
	source, err := cluster.LoadSource(ctx, r.Reader)
	if err != nil {
		return err
	}
	source.GlobalNamespace, source.Installed = s.source.GlobalNamespace, s.source.Installed // They are read live always.
	if source.Recorded, err = cluster.RecordedExamples(ctx, r.Reader); err != nil {
		return err
	}
	s.source, s.others = source, nil
	if s.request.DeletionTimestamp == nil {
		s.confirmed = plan.Of(s.request, source)
	}
	return nil
}

// removeEntry removes what an entry is about, and returns what it waits for, or "" if nothing of it is left for this request.
func (r *removal) removeEntry(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	if e.Origin != v1alpha1.OriginRequest {
		if handed, err := r.handOver(ctx, s, e); err != nil || handed {
			return "", err
		}
	}
	switch {
	case e.Mapping != "":
		return r.mappings.remove(ctx, s, e)
	case isSubscription(e):
		return r.removeSubscription(ctx, s, e)
	case isCSV(e):
		return r.removeCSV(ctx, s, e)
	case isGroup(e):
		return r.removeGroup(ctx, s, e)
	}
	return r.deleter.delete(ctx, s, e)
}

// handOver gives an entry to another request that wants what it is about, and reports whether there is one. One that has it already comes
// first: otherwise two of different operands would have it. It is in one of the inventories at any time.
func (r *removal) handOver(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (bool, error) {
	has := func(o other) bool {
		theirs := plan.Find(o.request.Status.Inventory, e)
		return theirs != nil && theirs.UID == e.UID
	}
	others := slices.Clone(s.others) // Of pointers to requests, which are changed.
	slices.SortStableFunc(others, func(a, b other) int {
		switch {
		case has(a) == has(b):
			return 0
		case has(a):
			return -1
		}
		return 1
	})
	for i := range others {
		other := &others[i]
		if takes, err := r.takes(ctx, s, other, e); err != nil {
			return false, err
		} else if !takes {
			continue
		}
		if has(*other) {
			return true, nil
		}
		before := other.request.DeepCopy()
		if controllerutil.AddFinalizer(other.request, v1alpha1.FinalizerRequest) { // What it gets must not go with it unnoticed.
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := r.Client.Patch(ctx, other.request, patch, client.FieldOwner(plan.FieldOwner)); err != nil {
				return false, fmt.Errorf("handing over to OperandRequest %q: %w", client.ObjectKeyFromObject(other.request), err)
			}
			before = other.request.DeepCopy()
		}
		if theirs := plan.Find(other.request.Status.Inventory, e); theirs != nil { // Patch has decoded it anew.
			theirs.UID = e.UID
		} else {
			other.request.Status.Inventory = append(other.request.Status.Inventory, e)
		}
		if err := status.Patch(ctx, r.Client, other.request, before); err != nil {
			return false, fmt.Errorf("handing over to OperandRequest %q: %w", client.ObjectKeyFromObject(other.request), err)
		}
		return true, nil
	}
	return false, nil
}

// takes reports whether another request may have what an entry is about: it wants that or may want it, and the namespace agrees, or it has recorded
// it. One that is being deleted removes what it has recorded itself, when it does not need it any more.
func (r *removal) takes(ctx context.Context, s *scope, other *other, e v1alpha1.InventoryEntry) (bool, error) {
	switch {
	case e.Origin == v1alpha1.OriginBinding && s.request.DeletionTimestamp == nil && !plan.Wants(other.operands, e):
		return false, nil // A copy that is revoked is removed at once.
	case plan.Find(other.request.Status.Inventory, e) != nil:
		return true, nil
	case other.ends():
		return false, nil
	case e.Origin != v1alpha1.OriginOperator || e.Mapping != "":
		return plan.Wants(other.operands, e) || plan.MayWant(other.operands, e), nil
	}
	for i := range other.operands {
		if !plan.Wants(other.operands[i:i+1], e) {
			continue
		}
		err := r.CheckConsent(ctx, plan.AnnotationConsent, other.operands[i].ID.Registry.Namespace, e.Namespace)
		if err == nil || !status.Is(err) {
			return err == nil, err
		}
	}
	return false, nil
}

// removeSubscription removes a Subscription once nobody uses its operator. Before that, it records the ClusterServiceVersions that came of
// it: they are removed after it.
func (r *removal) removeSubscription(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	live, err := r.deleter.liveSubscription(ctx, e)
	if err != nil || live == nil {
		return "", err
	}
	if live.Labels[v1alpha1.LabelKeep] == "true" {
		s.keepPackage(e)
		return "", nil
	}
	if live.DeletionTimestamp == nil {
		csvs, err := r.csvsOf(ctx, live)
		if err != nil {
			return "", err
		}
		for i := range csvs {
			users, err := r.users.ofPackage(ctx, s, e, &csvs[i])
			if err != nil || len(users) > 0 {
				return status.JoinNames(users), err
			}
		}
		if err := r.recordCSVs(ctx, s, e, csvs); err != nil {
			return "", err
		}
	}
	return r.deleter.delete(ctx, s, e)
}

// csvsOf returns the ClusterServiceVersions that came of a Subscription: that which is installed, and that which is about to be.
func (r *removal) csvsOf(ctx context.Context, subscription *operatorsv1alpha1.Subscription) ([]operatorsv1alpha1.ClusterServiceVersion, error) {
	var csvs []operatorsv1alpha1.ClusterServiceVersion
	names := []string{subscription.Status.InstalledCSV, subscription.Status.CurrentCSV}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		csv := operatorsv1alpha1.ClusterServiceVersion{}
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: subscription.Namespace, Name: name}, &csv)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, r.Explain(err, objectOf(plan.ClusterServiceVersionKind, subscription.Namespace, name))
		}
		csvs = append(csvs, csv)
	}
	return csvs, nil
}

// recordCSVs adds ClusterServiceVersions to the inventory, before their Subscription is deleted.
func (r *removal) recordCSVs(ctx context.Context, s *scope, subscription v1alpha1.InventoryEntry, csvs []operatorsv1alpha1.ClusterServiceVersion) error {
	changed := false
	for i := range csvs {
		e := csvEntry(subscription, &csvs[i])
		recorded := s.entry(e)
		switch {
		case recorded == nil:
			s.request.Status.Inventory, changed = append(s.request.Status.Inventory, e), true
		case recorded.UID != e.UID:
			recorded.UID, changed = e.UID, true
		}
	}
	if !changed {
		return nil
	}
	return s.save(ctx, r.Client)
}

// removeCSV removes a ClusterServiceVersion, whose Subscription is gone, once nobody uses the operator. If there is another Subscription to the
// package, it stays: that one has it now.
func (r *removal) removeCSV(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, csv)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", apply.ConfirmAbsence(ctx, r.Reader, err)
	case apierrors.IsForbidden(err):
		return "", r.ExplainUnlessEnding(ctx, err, objectOf(plan.ClusterServiceVersionKind, e.Namespace, e.Name))
	case err != nil:
		return "", fmt.Errorf("reading ClusterServiceVersion %q in namespace %q: %w", e.Name, e.Namespace, err)
	case e.UID != string(csv.UID):
		return "", nil
	case csv.DeletionTimestamp != nil:
		return r.deleter.delete(ctx, s, e)
	}
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	err = r.Reader.List(ctx, subscriptions, client.InNamespace(e.Namespace), client.Limit(listLimit))
	if apierrors.IsForbidden(err) {
		return "", r.ExplainUnlessEnding(ctx, err, objectOf(plan.SubscriptionKind, e.Namespace, ""))
	}
	if err != nil {
		return "", fmt.Errorf("listing Subscriptions in namespace %q: %w", e.Namespace, err)
	}
	for i := range subscriptions.Items {
		if uses(&subscriptions.Items[i], e) {
			return "", nil
		}
	}
	users, err := r.users.ofPackage(ctx, s, e, csv)
	if err != nil || len(users) > 0 {
		return status.JoinNames(users), err
	}
	return r.deleter.delete(ctx, s, e)
}

// uses reports whether a Subscription has a ClusterServiceVersion, or will have it when OLM has seen it.
func uses(subscription *operatorsv1alpha1.Subscription, csv v1alpha1.InventoryEntry) bool {
	of := subscription.Status
	return of.InstalledCSV == csv.Name || of.CurrentCSV == csv.Name ||
		subscription.Spec != nil && subscription.Namespace+"/"+subscription.Spec.Package == csv.Package
}

// removeGroup removes an OperatorGroup that we have created. If others have begun to use it, it stays: it is theirs then.
func (r *removal) removeGroup(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	for _, kind := range []schema.GroupVersionKind{plan.SubscriptionKind, plan.ClusterServiceVersionKind} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := r.Reader.List(ctx, list, client.InNamespace(e.Namespace), client.Limit(listLimit))
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			continue
		case apierrors.IsForbidden(err):
			return "", r.ExplainUnlessEnding(ctx, err, objectOf(kind, e.Namespace, ""))
		case err != nil:
			return "", fmt.Errorf("listing kind %s in namespace %q: %w", kind.Kind, e.Namespace, err)
		}
		for i := range list.Items {
			if list.Items[i].Labels[operatorsv1alpha1.CopiedLabelKey] == "" {
				return "", nil
			}
		}
	}
	return r.deleter.delete(ctx, s, e)
}
