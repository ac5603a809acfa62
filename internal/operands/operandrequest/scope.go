package operandrequest

import (
	"context"
	"fmt"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// fail records why something of an operand is not done. Nil is ignored.
func (o *operand) fail(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}

// install is a place in which an operator is wanted. A mapping of a SubOperatorConfig installs it there.
type install struct {
	plan.Install
	// soc is the SubOperatorConfig. It is nil if there is none.
	soc *v2beta2.SubOperatorConfig
	// entry is that of the mapping. It is nil if somebody else maps the namespace.
	entry *v1alpha1.InventoryEntry
	// phase is that of an operator without SubOperatorConfig.
	phase v1alpha1.OperatorPhase
}

// olmState is what the Operator Lifecycle Manager (OLM) has of a package in a namespace.
type olmState struct {
	// live is the Subscription, or nil. subscription is the same, decoded.
	live         *unstructured.Unstructured
	subscription *operatorsv1alpha1.Subscription
	// csv is the ClusterServiceVersion that OLM has installed, or nil.
	csv *operatorsv1alpha1.ClusterServiceVersion
	// err is why OLM cannot be used.
	err error
}

// olmPackage is a package that is wanted, with its state.
type olmPackage struct {
	*plan.Package
	*olmState
	// ours are the OperatorGroup and the Subscription if they were created for requests, or have to be.
	group, ours *resource
	// phase is that of a package that cannot be installed. Otherwise it is empty.
	phase v1alpha1.OperatorPhase
}

// resource is a planned resource with its state.
type resource struct {
	*plan.Object
	// live is nil if it does not exist.
	live *unstructured.Unstructured
	// phase is that of a resource that cannot be created or changed. Otherwise it is empty.
	phase v1alpha1.OperandPhase
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

// loadOthers reads the other OperandRequests live: what was created for one of them a moment ago must not be taken for foreign.
func (s *scope) loadOthers(ctx context.Context, reader client.Reader) error {
	if s.others != nil {
		return nil
	}
	list := &v1alpha1.OperandRequestList{}
	if err := reader.List(ctx, list); err != nil {
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

// plans returns what is planned, without what became of it.
func (s *scope) plans() []plan.Operand {
	plans := make([]plan.Operand, 0, len(s.operands))
	for _, o := range s.operands {
		plans = append(plans, o.Operand)
	}
	return plans
}

// listLimit is the maximum number of objects of a kind that are read from one namespace.
const listLimit = 500

// isCreated reports whether a live object was created for an operand: the inventory has its UID, or it has our annotation, which we
// have applied. The latter is so for what another request has created, and after a crash or the restore of a backup.
func isCreated(live client.Object, owner, uid string) bool {
	return uid != "" && uid == string(live.GetUID()) || plan.IsApplied(live, owner)
}

func unstructuredOf(kind schema.GroupVersionKind, key types.NamespacedName) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

func objectOf(kind schema.GroupVersionKind, namespace, name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(kind)
	return object
}

// waitingFor returns an error for an operator that is not ready.
func waitingFor(format string, args ...any) error {
	return status.Waiting(v1alpha1.ReasonOperatorNotReady, status.Watched, format, args...)
}
