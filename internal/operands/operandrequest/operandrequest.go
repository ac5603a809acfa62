// Package operandrequest installs what OperandRequests ask for, and removes what nobody asks for any more.
package operandrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Reconciler installs the operators of an OperandRequest, creates its resources, and removes what nobody requests any more.
// Only one of it works at a time: what requests share is handed over from one to the other.
type Reconciler struct {
	cluster.Access
	// Recorder records events.
	Recorder events.EventRecorder
	// GlobalNamespace is that of operators for all namespaces, see [cluster.FindGlobalNamespace].
	GlobalNamespace string

	costs pace.Costs
	// SetupWithManager sets the verbs, and what they watch.
	watcher   *cluster.Watcher
	resources *resources
	mappings  *mappings
	packages  *packages
	removal   *removal
}

// use gives the verbs what they need.
func (r *Reconciler) use(watcher *cluster.Watcher) {
	users := &users{&r.Access, watcher}
	r.watcher = watcher
	r.resources = &resources{&r.Access, watcher}
	r.mappings = &mappings{&r.Access, users}
	r.packages = &packages{&r.Access, watcher, r.resources}
	r.removal = &removal{&r.Access, r.mappings, users, &deleter{&r.Access, watcher}}
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer func(begin time.Time) { r.costs.Add(req.Namespace, time.Since(begin)) }(time.Now())
	request := &v1alpha1.OperandRequest{}
	if err := r.Reader.Get(ctx, req.NamespacedName, request); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if request.DeletionTimestamp != nil && !controllerutil.ContainsFinalizer(request, v1alpha1.FinalizerRequest) {
		return ctrl.Result{}, nil
	}
	s := &scope{request: request, written: request.DeepCopy()}
	conditions := s.written.Status.Conditions
	r.watcher.Began, r.watcher.Polls = false, false
	err := r.reconcile(ctx, s)
	switch {
	case r.watcher.Began: // What is awaited may have happened before.
		err = within(intervals.Conflict, err)
	case r.watcher.Polls:
		err = within(intervals.Missing, err)
	}
	if request.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, r.release(ctx, request)
	}
	s.summarize(err)
	writer := &status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile", Before: &conditions}
	result, err := writer.Write(ctx, request, s.written, err)
	if err == nil && result.IsZero() && r.watcher.Polls {
		result.RequeueAfter = intervals.Missing
	}
	return result, err
}

func (r *Reconciler) reconcile(ctx context.Context, s *scope) error {
	steps := []func(context.Context, *scope) error{
		r.addFinalizer,
		r.load,
		r.plan,
		r.observe,
		r.record,
		r.install,
		r.create,
	}
	if s.request.DeletionTimestamp != nil {
		steps = []func(context.Context, *scope) error{r.load}
	}
	for _, step := range steps {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	problems := []error{r.removal.remove(ctx, s)}
	for _, o := range s.operands {
		problems = append(problems, o.errs...)
	}
	slices.SortStableFunc(problems, func(a, b error) int { return cmp.Compare(patience(a), patience(b)) })
	return status.Join(problems...)
}

func (r *Reconciler) addFinalizer(ctx context.Context, s *scope) error {
	if !controllerutil.AddFinalizer(s.request, v1alpha1.FinalizerRequest) {
		return nil
	}
	patch := client.MergeFromWithOptions(s.written, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s.request, patch, client.FieldOwner(plan.FieldOwner)); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	s.written = s.request.DeepCopy()
	return nil
}

// load reads what the request refers to. One that is being deleted wants nothing of it, but it is needed to remove what the request has.
func (r *Reconciler) load(ctx context.Context, s *scope) error {
	var err error
	if s.source, err = cluster.LoadSource(ctx, r.Client); err != nil {
		return err
	}
	s.source.GlobalNamespace = r.GlobalNamespace
	return r.packages.read(ctx, s)
}

// plan determines what the request wants, and which SubOperatorConfigs serve it.
func (r *Reconciler) plan(ctx context.Context, s *scope) error {
	// An error of one operand does not end the pass: what others revoke is removed even so.
	for _, planned := range plan.Of(s.request, s.source) {
		o := &operand{Operand: planned}
		s.operands = append(s.operands, o)
		if o.Problem != nil {
			o.fail(status.Waiting(o.Problem.Reason, status.Watched, "%s", o.Problem.Message))
			continue
		}
		if o.ConfigProblem != nil {
			o.fail(status.Waiting(o.ConfigProblem.Reason, status.Watched, "%s", o.ConfigProblem.Message))
		}
		if o.Package != nil {
			o.fail(r.packages.resolve(ctx, s, o))
		}
		for _, wanted := range o.Installs {
			i, err := r.mappings.resolve(ctx, s, o.ID, wanted)
			if i == nil {
				i = &install{Install: wanted, phase: v1alpha1.OperatorInstalling}
			}
			o.installs = append(o.installs, i)
			o.fail(err)
		}
	}
	return nil
}

// observe reads the resources that are wanted.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	for _, o := range s.operands {
		for i := range o.Objects {
			of, err := r.resources.observe(ctx, s, o, &o.Objects[i])
			o.resources = append(o.resources, of)
			o.fail(err)
		}
	}
	return nil
}

// record adds what is wanted to the inventory before anything is written, so that nothing can be created that is not removed.
func (r *Reconciler) record(ctx context.Context, s *scope) error {
	changed := false
	add := func(e v1alpha1.InventoryEntry) {
		switch recorded := s.entry(e); {
		case recorded == nil:
			s.request.Status.Inventory, changed = append(s.request.Status.Inventory, e), true
		case e.Origin != v1alpha1.OriginOperator && !isOf(*recorded, e):
			e.UID = recorded.UID
			*recorded, changed = e, true
		case e.UID != "" && e.UID != recorded.UID: // Another SubOperatorConfig of that name.
			recorded.UID, changed = e.UID, true
		case e.APIVersion != recorded.APIVersion || e.Package != recorded.Package: // The former ones may be gone when it is removed.
			recorded.APIVersion, recorded.Package, changed = e.APIVersion, e.Package, true
		}
	}
	for _, o := range s.operands {
		for _, i := range o.installs {
			if i.entry != nil {
				add(*i.entry)
			}
		}
		if o.pkg != nil {
			for _, e := range o.pkg.entries(o.ID) {
				add(e)
			}
			changed = s.dropReplaced(o.pkg) || changed
		}
		for _, of := range o.resources {
			if of.phase == "" {
				add(of.Entry(o.ID))
			}
		}
	}
	if !changed {
		return nil
	}
	s.sortInventory()
	return s.save(ctx, r.Client)
}

// install brings the operators to where they are wanted.
func (r *Reconciler) install(ctx context.Context, s *scope) error {
	for _, o := range s.operands {
		if o.Problem != nil {
			continue
		}
		before := plan.MemberOf(s.written, o.ID).Phase.OperatorPhase
		o.phase.OperatorPhase = v1alpha1.OperatorRunning
		if o.pkg != nil {
			phase, err := r.packages.ensure(ctx, s, o)
			o.fail(s.withoutValues(ctx, &o.Package.Subscription, err))
			o.phase.OperatorPhase = phase
		}
		for _, i := range o.installs {
			phase, err := r.mappings.ensure(ctx, i)
			o.fail(err)
			o.phase.OperatorPhase = worse(o.phase.OperatorPhase, phase)
		}
		if o.phase.OperatorPhase == v1alpha1.OperatorInstalling && (before == v1alpha1.OperatorRunning || before == v1alpha1.OperatorUpdating) {
			o.phase.OperatorPhase = v1alpha1.OperatorUpdating
		}
	}
	return nil
}

// create creates and changes the resources. All but copies wait for the operator.
func (r *Reconciler) create(ctx context.Context, s *scope) error {
	for _, o := range s.operands {
		switch {
		case o.ConfigProblem != nil:
			o.phase.OperandPhase = v1alpha1.OperandFailed
		case len(o.Objects) > 0:
			o.phase.OperandPhase = v1alpha1.OperandRunning
		}
		for _, of := range o.resources {
			phase, err := r.resources.ensure(ctx, s, o, of)
			o.fail(s.withoutValues(ctx, of.Object, err))
			if phase == v1alpha1.OperandFailed || o.phase.OperandPhase == v1alpha1.OperandRunning {
				o.phase.OperandPhase = phase
			}
		}
	}
	return nil
}

// release lets a request go for which nothing is left.
func (r *Reconciler) release(ctx context.Context, request *v1alpha1.OperandRequest) error {
	before := request.DeepCopy()
	controllerutil.RemoveFinalizer(request, v1alpha1.FinalizerRequest)
	err := r.Client.Patch(ctx, request, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(plan.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	rest := &v1alpha1.OperandRequestList{}
	if err := r.Reader.List(ctx, rest); err != nil {
		return fmt.Errorf("listing OperandRequests: %w", err)
	}
	r.watcher.Prune(rest.Items)
	return nil
}
