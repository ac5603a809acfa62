package operandrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// entry returns the entry of the inventory that is about the same object, or nil.
func (s *scope) entry(of v1alpha1.InventoryEntry) *v1alpha1.InventoryEntry {
	return plan.Find(s.request.Status.Inventory, of)
}

// uidOf returns the recorded UID of the object of an entry, or "".
func (s *scope) uidOf(e v1alpha1.InventoryEntry) string {
	if recorded := s.entry(e); recorded != nil {
		return recorded.UID
	}
	return ""
}

// drop removes an entry from the inventory.
func (s *scope) drop(e v1alpha1.InventoryEntry) {
	s.dropAll(func(entry v1alpha1.InventoryEntry) bool { return plan.Same(entry, e) })
}

// dropReplaced removes the entries of ClusterServiceVersions that OLM has replaced, and reports whether there are any.
func (s *scope) dropReplaced(p *olmPackage) bool {
	return p.ours != nil && p.csv != nil && s.dropAll(func(e v1alpha1.InventoryEntry) bool {
		return isCSV(e) && p.Is(e) && e.UID != string(p.csv.UID)
	})
}

// keepPackage drops the entries of what belongs to a Subscription that a user wants to keep.
func (s *scope) keepPackage(subscription v1alpha1.InventoryEntry) {
	s.dropAll(func(e v1alpha1.InventoryEntry) bool {
		return e.Namespace == subscription.Namespace && (isCSV(e) && e.Package == subscription.Package || isGroup(e))
	})
}

// dropAll removes the entries of which something is true, and reports whether there are any. It does not change the former inventory, which
// may be in use.
func (s *scope) dropAll(is func(v1alpha1.InventoryEntry) bool) bool {
	before := s.request.Status.Inventory
	s.request.Status.Inventory = slices.DeleteFunc(slices.Clone(before), is)
	return len(s.request.Status.Inventory) < len(before)
}

// sortInventory sorts entries in the order in which what they are about is created: it is removed in the reverse order. Copies are first: they
// are known even if an operand has a problem, and others of the operand, which may need them, are not.
func (s *scope) sortInventory() {
	var order []v1alpha1.InventoryEntry
	for _, o := range s.operands {
		for i := range o.Objects {
			order = append(order, o.Objects[i].Entry(o.ID))
		}
	}
	at := func(e v1alpha1.InventoryEntry) int {
		if e.Origin == v1alpha1.OriginBinding {
			return -2 // Before those that are not known.
		}
		return slices.IndexFunc(order, func(of v1alpha1.InventoryEntry) bool { return plan.Same(e, of) })
	}
	sorted := slices.Clone(s.request.Status.Inventory)
	slices.SortStableFunc(sorted, func(a, b v1alpha1.InventoryEntry) int { return cmp.Compare(at(a), at(b)) })
	s.request.Status.Inventory = sorted
}

// save writes the status as it is.
func (s *scope) save(ctx context.Context, c client.Client) error {
	if err := status.Patch(ctx, c, s.request, s.written); err != nil {
		return fmt.Errorf("writing the inventory: %w", err)
	}
	s.written = s.request.DeepCopy()
	return nil
}

// recordedUID returns the UID of an object that was created for the request, or "". One that was created for another operand of the request
// is taken over from that, unless other requests have it for another one than this, too: each would write what it wants in turn.
func (s *scope) recordedUID(ctx context.Context, reader client.Reader, e v1alpha1.InventoryEntry) (string, error) {
	recorded := s.entry(e)
	if recorded == nil {
		return "", nil
	}
	if isOf(*recorded, e) {
		return recorded.UID, nil
	}
	if e.Origin == v1alpha1.OriginBinding && recorded.Origin != e.Origin { // A copy does not replace what an operand specifies.
		return "", nil
	}
	if err := s.loadOthers(ctx, reader); err != nil {
		return "", err
	}
	for _, other := range s.others {
		if !other.ends() && plan.Find(other.request.Status.Inventory, e) != nil && !other.agrees(e) {
			return "", nil
		}
	}
	return recorded.UID, nil
}

// isOf reports whether two entries are about the same operand, and were created for the same.
func isOf(a, b v1alpha1.InventoryEntry) bool {
	return a.Registry == b.Registry && a.Operand == b.Operand && a.Origin == b.Origin
}

// unwanted returns the entries that are to be removed. Once there is a confirmed plan, it must not want them either.
func (s *scope) unwanted() []v1alpha1.InventoryEntry {
	confirmed := plan.Unwanted(s.request.Status.Inventory, s.confirmed)
	return slices.DeleteFunc(plan.Unwanted(s.request.Status.Inventory, s.plans()), func(e v1alpha1.InventoryEntry) bool {
		return plan.Find(confirmed, e) == nil
	})
}

func isSubscription(e v1alpha1.InventoryEntry) bool {
	return e.Kind == plan.SubscriptionKind.Kind && e.Origin == v1alpha1.OriginOperator
}

func isCSV(e v1alpha1.InventoryEntry) bool {
	return e.Kind == plan.ClusterServiceVersionKind.Kind && e.Origin == v1alpha1.OriginOperator
}

func isGroup(e v1alpha1.InventoryEntry) bool {
	return e.Kind == plan.OperatorGroupKind.Kind && e.Origin == v1alpha1.OriginOperator
}

// ranks is the number of results of rankOf.
const ranks = 4

// rankOf orders removals: resources, what installs operators, ClusterServiceVersions, which OLM would create again before, and
// OperatorGroups.
func rankOf(e v1alpha1.InventoryEntry) int {
	switch {
	case e.Origin != v1alpha1.OriginOperator:
		return 0
	case isCSV(e):
		return 2
	case isGroup(e):
		return 3
	}
	return 1
}

// isNeeded reports whether something that is to be removed before is still there.
func isNeeded(s *scope, unwanted []v1alpha1.InventoryEntry, e v1alpha1.InventoryEntry) bool {
	return slices.ContainsFunc(unwanted, func(before v1alpha1.InventoryEntry) bool {
		if rankOf(before) >= rankOf(e) || s.entry(before) == nil {
			return false
		}
		switch {
		case e.Mapping != "":
			return before.Namespace == e.Mapping
		case isSubscription(e):
			return isOperatorOf(e, before)
		case isCSV(e):
			return before.Namespace == e.Namespace && before.Package == e.Package
		}
		return before.Namespace == e.Namespace && before.Origin == v1alpha1.OriginOperator
	})
}

// isOperatorOf reports whether the operator of a Subscription is that of a resource. The Subscription may have been created for another
// operand, or for another request.
func isOperatorOf(subscription, resource v1alpha1.InventoryEntry) bool {
	return resource.Package == subscription.Package || resource.Registry == subscription.Registry && resource.Operand == subscription.Operand
}

// csvEntry returns the entry of a ClusterServiceVersion that came of the Subscription with an entry.
func csvEntry(e v1alpha1.InventoryEntry, csv client.Object) v1alpha1.InventoryEntry {
	e.Kind, e.Name, e.UID = plan.ClusterServiceVersionKind.Kind, csv.GetName(), string(csv.GetUID())
	return e
}
