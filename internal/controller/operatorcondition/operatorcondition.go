// Package operatorcondition tells OLM whether the manager may be upgraded now.
package operatorcondition

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Reconciler tells the Operator Lifecycle Manager (OLM) when it may replace the manager, if OLM installed it.
type Reconciler struct {
	// Client reads from the cache, and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Namespace is that of the manager.
	Namespace string
	// Name is that of the manager's OperatorCondition, or "" if OLM did not install the manager. Then nothing is read or written.
	Name string
	// Namespaces are those that the manager may use.
	Namespaces mapping.Selection

	// written is what the OperatorCondition is known to say.
	written metav1.Condition
	// refusal is why it could not be written, or "".
	refusal metav1.StatusReason
}

// SetupWithManager registers the controller. Like the others it works in the leader only. Changes within a second are looked at once:
// see [pace.LaterFor].
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.Name == "" {
		return nil
	}
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: r.Namespace, Name: r.Name}}
	always := pace.LaterFor(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{request} })
	return ctrl.NewControllerManagedBy(mgr).
		Named("operatorcondition").
		WithEventFilter(pace.WithoutRelists).
		Watches(&v2beta2.OperatorCollection{}, always).
		Watches(&v2beta2.SubOperatorConfig{}, always).
		WatchesRawSource(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(request)
			return nil
		})).
		WithOptions(pace.Options(1)).
		Complete(r)
}

// Reconcile writes the condition Upgradeable when it changes.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	wanted, again, err := r.evaluate(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	result := reconcile.Result{RequeueAfter: again}
	if wanted == r.written {
		return result, nil
	}
	err = olm.SetCondition(ctx, r.Reader, r.Client, request.NamespacedName, wanted)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		r.reportRefusal(ctx, request, err)
		return result, nil
	}
	if err != nil {
		return status.Result(err)
	}
	r.written, r.refusal = wanted, ""
	return result, nil
}

// evaluate reads all OperatorCollections and SubOperatorConfigs from the cache.
func (r *Reconciler) evaluate(ctx context.Context) (metav1.Condition, time.Duration, error) {
	ocs, socs := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, ocs, client.UnsafeDisableDeepCopy); err != nil {
		return metav1.Condition{}, 0, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	if err := r.Client.List(ctx, socs, client.UnsafeDisableDeepCopy); err != nil {
		return metav1.Condition{}, 0, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	wanted, again := managerUpgradeable(ocs.Items, socs.Items, r.Namespaces, time.Now())
	return wanted, again, nil
}

// reportRefusal logs once that OLM is not told anything: it then replaces the manager at any time. The next change is another attempt.
func (r *Reconciler) reportRefusal(ctx context.Context, request reconcile.Request, err error) {
	reason := apierrors.ReasonForError(err)
	if reason == r.refusal {
		return
	}
	r.refusal = reason
	ctrl.LoggerFrom(ctx).Info("the Operator Lifecycle Manager is not told when it may replace the manager",
		"operatorCondition", request.String(), "variable", olm.ConditionVariable, "reason", reason)
}
