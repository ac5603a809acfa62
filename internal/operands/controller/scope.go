package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// scope is what the steps of one reconciliation share.
type scope struct {
	request *v1alpha1.OperandRequest
	// written is the request as it was written last.
	written *v1alpha1.OperandRequest
	source  *plan.Source
	// packages has the state of those that the request names, or has something of.
	packages map[plan.PackageKey]*olmState
	operands []*operand
	// confirmed is the plan of live objects. It is nil until something is to be removed, and for a request that is being deleted.
	confirmed []plan.Operand
	// others are read when they are needed first.
	others []other
}

// operand is a planned operand, with what became of it.
type operand struct {
	plan.Operand
	installs []*install
	// pkg is that of OLM, or nil.
	pkg *olmPackage
	// resources has the state of each of Objects.
	resources []*resource
	phase     v1alpha1.MemberPhase
	// errs have a reason each.
	errs []error
}

// other is another OperandRequest, with what it wants, or would want if it were not being deleted.
type other struct {
	request  *v1alpha1.OperandRequest
	operands []plan.Operand
}

// ends reports whether the request is being deleted. Then it has something to remove still.
func (o *other) ends() bool { return o.request.DeletionTimestamp != nil }

// agrees reports whether the request wants what an entry is about for the same operand, and for no other one.
func (o *other) agrees(e v1alpha1.InventoryEntry) bool {
	wants := false
	for i := range o.operands {
		if plan.Specifies(o.operands[i:i+1], e) {
			if !o.operands[i].ID.Is(e) {
				return false
			}
			wants = true
		}
	}
	return wants
}

// loadSource reads all objects that OperandRequests refer to through the cache.
func loadSource(ctx context.Context, reader client.Reader) (*plan.Source, error) {
	registries, configs, collections, infos := &v1alpha1.OperandRegistryList{}, &v1alpha1.OperandConfigList{}, &v2beta2.OperatorCollectionList{}, &v1alpha1.OperandBindInfoList{}
	for _, list := range []client.ObjectList{registries, configs, collections, infos} {
		if err := reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("listing %T: %w", list, err)
		}
	}
	source := &plan.Source{
		Registries:  map[types.NamespacedName]*v1alpha1.OperandRegistry{},
		Configs:     map[types.NamespacedName]*v1alpha1.OperandConfig{},
		Collections: map[types.NamespacedName]*v2beta2.OperatorCollection{},
	}
	for i := range registries.Items {
		source.Registries[client.ObjectKeyFromObject(&registries.Items[i])] = &registries.Items[i]
	}
	for i := range configs.Items {
		source.Configs[client.ObjectKeyFromObject(&configs.Items[i])] = &configs.Items[i]
	}
	for i := range collections.Items {
		source.Collections[client.ObjectKeyFromObject(&collections.Items[i])] = &collections.Items[i]
	}
	for i := range infos.Items {
		source.BindInfos = append(source.BindInfos, &infos.Items[i])
	}
	slices.SortFunc(source.BindInfos, func(a, b *v1alpha1.OperandBindInfo) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return source, nil
}

// loadOthers reads the other OperandRequests live: what was created for one of them a moment ago must not be taken for foreign.
func (r *RequestReconciler) loadOthers(ctx context.Context, s *scope) error {
	if s.others != nil {
		return nil
	}
	list := &v1alpha1.OperandRequestList{}
	if err := r.Reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing OperandRequests: %w", err)
	}
	s.others = []other{}
	for i := range list.Items {
		request := &list.Items[i]
		if request.UID != s.request.UID && (request.DeletionTimestamp == nil || controllerutil.ContainsFinalizer(request, v1alpha1.FinalizerRequest)) {
			s.others = append(s.others, other{request, plan.Of(request, s.source)})
		}
	}
	return nil
}

// recordedExamples returns the entries of all OperandRequests that are about examples of packages.
func recordedExamples(ctx context.Context, reader client.Reader) ([]v1alpha1.InventoryEntry, error) {
	list := &v1alpha1.OperandRequestList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing OperandRequests: %w", err)
	}
	var recorded []v1alpha1.InventoryEntry
	for i := range list.Items {
		for _, e := range list.Items[i].Status.Inventory {
			if e.Origin == v1alpha1.OriginConfig && e.Package != "" {
				recorded = append(recorded, e)
			}
		}
	}
	return recorded, nil
}

// entry returns the entry of the inventory that is about the same object, or nil.
func (s *scope) entry(of v1alpha1.InventoryEntry) *v1alpha1.InventoryEntry {
	return find(s.request.Status.Inventory, of)
}

func find(inventory []v1alpha1.InventoryEntry, of v1alpha1.InventoryEntry) *v1alpha1.InventoryEntry {
	for i := range inventory {
		if plan.Same(inventory[i], of) {
			return &inventory[i]
		}
	}
	return nil
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

// withoutValues leaves out of an error what the API server, or the operator, says about an object in another namespace: this may have
// values that the requester may not read. Why it is refused is logged, except for Secrets.
func (s *scope) withoutValues(ctx context.Context, object *plan.Object, err error) error {
	e := status.AsError(err)
	if e == nil || object.Key.Namespace == s.request.Namespace {
		return err
	}
	var what string
	switch e.Reason {
	case v1alpha1.ReasonOperandFailed:
		what = "has failed: its status has the reason"
	case v1alpha1.ReasonOperandNotReady:
		what = "is not ready: its status has the reason"
	case v2beta2.ReasonObjectRefused:
		what = "was refused: to see why, apply it in its namespace"
		if object.Kind.Kind != "Secret" {
			what = "was refused: the log of the component operands has the reason"
			ctrl.LoggerFrom(ctx).Error(err, "an object in another namespace than its OperandRequest was refused")
		}
	default:
		return err
	}
	return status.Waiting(e.Reason, e.RetryAfter, "%s %q %s", object.Kind.Kind, object.Key, what)
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
	var rest []v1alpha1.InventoryEntry
	for _, entry := range s.request.Status.Inventory {
		if !plan.Same(entry, e) {
			rest = append(rest, entry)
		}
	}
	s.request.Status.Inventory = rest
}
