// Package subscription makes a SubOperatorConfig for a Subscription that a user makes in the console, and deletes it with that.
package subscription

import (
	"context"
	"errors"
	"fmt"
	"sync"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Reconciler creates the SubOperatorConfig for a Subscription that a user created, for instance from the tile in
// OperatorHub. Without a SubOperatorConfig, the operator's pods wait for a ConfigMap and a Secret that nothing creates.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// OLM is nil if the manager was started without a catalog.
	OLM *olm.Cluster

	// events has the last event of each Subscription, so that it is not repeated.
	events sync.Map
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	subscription := &operatorsv1alpha1.Subscription{}
	err := r.Client.Get(ctx, req.NamespacedName, subscription)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err := r.removeAbandoned(ctx, req.NamespacedName, subscription.UID); err != nil {
		return status.Result(err)
	}
	if subscription.UID == "" || subscription.DeletionTimestamp != nil || !r.userManaged(subscription) {
		r.events.Delete(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	err = (&creator{client: r.Client, reader: r.Reader, recorder: r.Recorder}).ensureSubOperatorConfig(ctx, subscription)
	var refused *status.Error
	if errors.As(err, &refused) {
		r.recordEvent(subscription, refused)
		return ctrl.Result{}, nil // All resources that can resolve it are watched.
	}
	if err == nil {
		r.events.Delete(req.NamespacedName)
	}
	return status.Result(err)
}

// userManaged reports whether a Subscription to the manager's catalog was created by a user, and not for a
// SubOperatorConfig.
func (r *Reconciler) userManaged(subscription *operatorsv1alpha1.Subscription) bool {
	return r.OLM.Offers(subscription) && subscription.Annotations[install.AnnotationOwner] == ""
}

// removeAbandoned deletes SubOperatorConfigs that were created for a Subscription with this name and another UID. Otherwise
// they would create the Subscription again, and users could not uninstall the operator by deleting it.
func (r *Reconciler) removeAbandoned(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list); err != nil {
		return fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	for i := range list.Items {
		soc := &list.Items[i]
		of, made, ok := olm.MadeFor(soc)
		if !ok || of != key || made == uid || soc.DeletionTimestamp != nil || olm.TakenOver(soc, key.Namespace) {
			continue
		}
		live := &operatorsv1alpha1.Subscription{}
		if err := r.Reader.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Subscription %q: %w", key, err)
		}
		if live.UID == made {
			continue // The cache is outdated.
		}
		if err := r.Client.Delete(ctx, soc, client.Preconditions{UID: &soc.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting SubOperatorConfig %q: %w", client.ObjectKeyFromObject(soc), err)
		}
		r.Recorder.Eventf(soc, nil, corev1.EventTypeNormal, v2beta2.ReasonTerminating, "Uninstall",
			"Subscription %q, for which this SubOperatorConfig was created, is deleted", key)
	}
	return nil
}

// recordEvent records a failure as an event on the Subscription, unless it equals the last event.
func (r *Reconciler) recordEvent(subscription *operatorsv1alpha1.Subscription, refused *status.Error) {
	note := printable.Line(refused.Error(), status.MaxEventBytes)
	text := refused.Reason + " " + note
	if last, _ := r.events.Swap(client.ObjectKeyFromObject(subscription), text); last != text {
		r.Recorder.Eventf(subscription, nil, corev1.EventTypeWarning, refused.Reason, "Install", "%s", note)
	}
}

// SetupWithManager registers the controller. It watches nothing until OLM is available.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.OLM == nil {
		return nil
	}
	settings := pace.Options(1)
	settings.Reconciler = r
	c, err := controller.New("subscription", mgr, settings)
	if err != nil {
		return err
	}
	all := handler.EnqueueRequestsFromMapFunc(r.allUserManaged)
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	r.OLM.OnAvailable(func(context.Context) error {
		return errors.Join(
			c.Watch(source.Kind[client.Object](mgr.GetCache(), &operatorsv1alpha1.Subscription{}, &handler.EnqueueRequestForObject{},
				predicate.NewPredicateFuncs(olm.KeptWhole))),
			c.Watch(source.Kind[client.Object](mgr.GetCache(), &v2beta2.OperatorCollection{}, all)),
			c.Watch(source.Kind[client.Object](mgr.GetCache(), &v2beta2.SubOperatorConfig{}, all)),
			c.Watch(source.Kind[client.Object](mgr.GetCache(), &v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(ofMadeFor))),
			c.Watch(source.Kind[client.Object](mgr.GetCache(), namespace, all, predicate.AnnotationChangedPredicate{})),
		)
	})
	return nil
}

// allUserManaged maps any object to all user-managed Subscriptions.
func (r *Reconciler) allUserManaged(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &operatorsv1alpha1.SubscriptionList{}
	if err := r.Client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list Subscriptions")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if r.userManaged(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// ofMadeFor maps a SubOperatorConfig to the Subscription that it was created for, whether that exists or not.
func ofMadeFor(_ context.Context, object client.Object) []reconcile.Request {
	key, _, ok := olm.MadeFor(object)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}
