// Package controller installs what OperandRequests ask for, and removes what nobody asks for any more.
package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// FieldOwner is the field manager of all that is created for OperandRequests.
const FieldOwner = plan.FieldOwner

// RequestReconciler installs the operators of an OperandRequest, creates its resources, and removes what nobody requests any more.
// Only one of it works at a time: what requests share is handed over from one to the other.
type RequestReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Account is the ServiceAccount of this process, for messages.
	Account types.NamespacedName
	// GlobalNamespace is that of operators for all namespaces, see [FindGlobalNamespace].
	GlobalNamespace string

	watcher *watcher
	costs   pace.Costs
}

// Reconcile implements [reconcile.Reconciler].
func (r *RequestReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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
	r.watcher.began, r.watcher.polls = false, false
	err := r.reconcile(ctx, s)
	switch {
	case r.watcher.began: // What is awaited may have happened before.
		err = within(intervals.Conflict, err)
	case r.watcher.polls:
		err = within(intervals.Missing, err)
	}
	if request.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, r.release(ctx, request)
	}
	s.summarize(err)
	writer := &status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Reconcile", Before: &conditions}
	result, err := writer.Write(ctx, request, s.written, err)
	if err == nil && result.IsZero() && r.watcher.polls {
		result.RequeueAfter = intervals.Missing
	}
	return result, err
}

func (r *RequestReconciler) reconcile(ctx context.Context, s *scope) error {
	steps := []func(context.Context, *scope) error{
		r.addFinalizer,
		r.plan,
		r.read,
		r.record,
		r.install,
		r.create,
	}
	if s.request.DeletionTimestamp != nil {
		steps = []func(context.Context, *scope) error{r.planNothing}
	}
	for _, step := range steps {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	problems := []error{r.remove(ctx, s)}
	for _, o := range s.operands {
		problems = append(problems, o.errs...)
	}
	slices.SortStableFunc(problems, func(a, b error) int { return cmp.Compare(patience(a), patience(b)) })
	return status.Join(problems...)
}

// within returns an error that is retried after a delay at the latest.
func within(delay time.Duration, err error) error {
	e := status.AsError(err)
	if e == nil || e.RetryAfter <= delay {
		return err
	}
	return &status.Error{Reason: e.Reason, RetryAfter: delay, Err: e.Err}
}

// patience is 1 for what only needs time, and 0 for what needs attention: that is reported first.
func patience(err error) int {
	switch e := status.AsError(err); {
	case e == nil, e.Reason == v1alpha1.ReasonOperatorNotReady, e.Reason == v1alpha1.ReasonOperandNotReady, e.Reason == v1alpha1.ReasonRemovalWaiting:
		return 1
	}
	return 0
}

func (r *RequestReconciler) addFinalizer(ctx context.Context, s *scope) error {
	if !controllerutil.AddFinalizer(s.request, v1alpha1.FinalizerRequest) {
		return nil
	}
	patch := client.MergeFromWithOptions(s.written, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, s.request, patch, client.FieldOwner(FieldOwner)); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	s.written = s.request.DeepCopy()
	return nil
}

// plan determines what the request wants, and which SubOperatorConfigs serve it.
func (r *RequestReconciler) plan(ctx context.Context, s *scope) error {
	var err error
	if s.source, err = loadSource(ctx, r.Client); err != nil {
		return err
	}
	if err := r.readPackages(ctx, s); err != nil {
		return err
	}
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
			o.fail(r.resolvePackage(ctx, s, o))
		}
		for _, wanted := range o.Installs {
			i, err := r.resolve(ctx, s, o.ID, wanted)
			if i == nil {
				i = &install{Install: wanted, phase: v1alpha1.OperatorInstalling}
			}
			o.installs = append(o.installs, i)
			o.fail(err)
		}
	}
	return nil
}

// planNothing lets a request that is being deleted want nothing.
func (r *RequestReconciler) planNothing(ctx context.Context, s *scope) error {
	var err error
	if s.source, err = loadSource(ctx, r.Client); err != nil {
		return err
	}
	return r.readPackages(ctx, s)
}

// read reads the resources that are wanted.
func (r *RequestReconciler) read(ctx context.Context, s *scope) error {
	for _, o := range s.operands {
		for i := range o.Objects {
			of, err := r.observe(ctx, s, o, &o.Objects[i])
			o.resources = append(o.resources, of)
			o.fail(err)
		}
	}
	return nil
}

// record adds what is wanted to the inventory before anything is written, so that nothing can be created that is not removed.
func (r *RequestReconciler) record(ctx context.Context, s *scope) error {
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
	return r.save(ctx, s)
}

// save writes the status as it is.
func (r *RequestReconciler) save(ctx context.Context, s *scope) error {
	if err := status.Patch(ctx, r.Client, s.request, s.written); err != nil {
		return fmt.Errorf("writing the inventory: %w", err)
	}
	s.written = s.request.DeepCopy()
	return nil
}

// install brings the operators to where they are wanted.
func (r *RequestReconciler) install(ctx context.Context, s *scope) error {
	for _, o := range s.operands {
		if o.Problem != nil {
			continue
		}
		before := memberOf(s.written, o.ID).Phase.OperatorPhase
		o.phase.OperatorPhase = v1alpha1.OperatorRunning
		if o.pkg != nil {
			phase, err := r.ensurePackage(ctx, s, o)
			o.fail(s.withoutValues(ctx, &o.Package.Subscription, err))
			o.phase.OperatorPhase = phase
		}
		for _, i := range o.installs {
			phase, err := r.ensureInstalled(ctx, i)
			o.fail(err)
			o.phase.OperatorPhase = worse(o.phase.OperatorPhase, phase)
		}
		if o.phase.OperatorPhase == v1alpha1.OperatorInstalling && (before == v1alpha1.OperatorRunning || before == v1alpha1.OperatorUpdating) {
			o.phase.OperatorPhase = v1alpha1.OperatorUpdating
		}
	}
	return nil
}

// worse returns the phase that needs more attention.
func worse(a, b v1alpha1.OperatorPhase) v1alpha1.OperatorPhase {
	for _, phase := range []v1alpha1.OperatorPhase{v1alpha1.OperatorFailed, v1alpha1.OperatorInstalling} {
		if a == phase || b == phase {
			return phase
		}
	}
	return a
}

// create creates and changes the resources. All but copies wait for the operator.
func (r *RequestReconciler) create(ctx context.Context, s *scope) error {
	for _, o := range s.operands {
		switch {
		case o.ConfigProblem != nil:
			o.phase.OperandPhase = v1alpha1.OperandFailed
		case len(o.Objects) > 0:
			o.phase.OperandPhase = v1alpha1.OperandRunning
		}
		for _, of := range o.resources {
			phase, err := r.ensureObject(ctx, s, o, of)
			o.fail(s.withoutValues(ctx, of.Object, err))
			if phase == v1alpha1.OperandFailed || o.phase.OperandPhase == v1alpha1.OperandRunning {
				o.phase.OperandPhase = phase
			}
		}
	}
	return nil
}

// release lets a request go for which nothing is left.
func (r *RequestReconciler) release(ctx context.Context, request *v1alpha1.OperandRequest) error {
	before := request.DeepCopy()
	controllerutil.RemoveFinalizer(request, v1alpha1.FinalizerRequest)
	err := r.Client.Patch(ctx, request, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	rest := &v1alpha1.OperandRequestList{}
	if err := r.Reader.List(ctx, rest); err != nil {
		return fmt.Errorf("listing OperandRequests: %w", err)
	}
	r.watcher.prune(rest.Items)
	return nil
}

// fail records why something of an operand is not done. Nil is ignored.
func (o *operand) fail(err error) {
	if err != nil {
		o.errs = append(o.errs, err)
	}
}
