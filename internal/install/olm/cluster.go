// Package olm installs collections with the Operator Lifecycle Manager (OLM).
package olm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

const (
	// CatalogSourceName is the name of the manager's CatalogSource.
	CatalogSourceName = "collection-operator-catalog"
)

// catalogNamespaces are the global catalog namespaces of OLM: on OpenShift, and on other clusters.
var catalogNamespaces = []string{"openshift-marketplace", "olm"}

// kinds lists the kinds of OLM that the manager uses. All of them are namespaced.
var kinds = []schema.GroupVersionKind{
	operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind),
	operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind),
	operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.InstallPlanKind),
	operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind),
	operatorsv1.GroupVersion.WithKind("OperatorGroup"),
	operatorsv2.GroupVersion.WithKind("OperatorCondition"),
}

// NewRESTMapper returns the manager's RESTMapper. It knows the kinds of OLM before the cluster serves them, so that the
// cache can be configured for them.
func NewRESTMapper(config *rest.Config, httpClient *http.Client) (meta.RESTMapper, error) {
	dynamic, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, err
	}
	static := meta.NewDefaultRESTMapper(nil)
	for _, gvk := range kinds {
		static.Add(gvk, meta.RESTScopeNamespace)
	}
	return meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{static, dynamic}}, nil
}

// Cluster detects OLM. A nil Cluster is never available: the manager was started without a catalog. Once found, OLM stays
// available until the manager stops.
type Cluster struct {
	// Client creates SelfSubjectAccessReviews.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Discovery lists the APIs that the cluster serves.
	Discovery discovery.ServerResourcesInterfaceWithContext
	// CatalogAddress is the address of the manager's catalog for OLM, as host:port.
	CatalogAddress string
	// CatalogNamespace is the namespace of the CatalogSource. If empty, it is the first of catalogNamespaces that exists.
	CatalogNamespace string
	// CreateOperatorGroups lets installations create the OperatorGroup of a namespace without one. It is a decision of the
	// administrator: with an OperatorGroup, users who can create Subscriptions there can install any package.
	CreateOperatorGroups bool

	// found is the CatalogSource, once OLM is available.
	found atomic.Pointer[types.NamespacedName]
	// missing is the reason why OLM is not available.
	missing atomic.Pointer[error]

	mu sync.Mutex
	// waiting has the functions to call once OLM is available.
	waiting []func(context.Context) error
	// asked is that of reinstalls.
	asked *lru.Cache
}

// Available reports whether OLM can install operators.
func (c *Cluster) Available() bool { return c != nil && c.found.Load() != nil }

// Checked reports whether the manager has looked for OLM at least once.
func (c *Cluster) Checked() bool { return c.Available() || c.missing.Load() != nil }

// Err returns the reason why OLM is not available, or nil if it is.
func (c *Cluster) Err() error {
	if c == nil {
		return errors.New("the manager was started without --catalog-bind-address: install it with the component config/components/olm")
	}
	if c.Available() {
		return nil
	}
	if missing := c.missing.Load(); missing != nil {
		return *missing
	}
	return errors.New("the manager has not looked for the Operator Lifecycle Manager yet")
}

// CatalogSource returns the name of the CatalogSource that Subscriptions refer to. It is empty until OLM is available.
func (c *Cluster) CatalogSource() types.NamespacedName {
	if !c.Available() {
		return types.NamespacedName{}
	}
	return *c.found.Load()
}

// Offers reports whether a Subscription refers to the manager's catalog.
func (c *Cluster) Offers(subscription *operatorsv1alpha1.Subscription) bool {
	spec := subscription.Spec
	return spec != nil && c.Available() && c.CatalogSource() == types.NamespacedName{
		Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource,
	}
}

// OnAvailable registers a function to call when OLM is found, with a context that ends with the manager. It may start
// watches and trigger reconciles. The call is repeated every [intervals.OLM] until it succeeds. Functions must be registered
// before the manager starts.
func (c *Cluster) OnAvailable(do func(context.Context) error) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, do)
}

// SetupWithManager adds the detection of OLM to the manager.
func (c *Cluster) SetupWithManager(mgr ctrl.Manager) error {
	if c == nil {
		return nil
	}
	return mgr.Add(c)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each manager serves the catalog.
func (*Cluster) NeedLeaderElection() bool { return false }

// Start looks for OLM until it is found and all functions of [Cluster.OnAvailable] have succeeded.
func (c *Cluster) Start(ctx context.Context) error {
	for !c.discover(ctx) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(intervals.OLM):
		}
	}
	return nil
}

// discover looks for OLM once, and reports whether OLM is found and nothing is left to do.
func (c *Cluster) discover(ctx context.Context) bool {
	log := ctrl.LoggerFrom(ctx).WithName("olm")
	if !c.Available() {
		source, err := c.find(ctx)
		if err != nil {
			if before := c.missing.Swap(&err); before == nil || (*before).Error() != err.Error() {
				log.Info("the Operator Lifecycle Manager is not used", "reason", err.Error())
			}
			return false
		}
		c.found.Store(&source)
		log.Info("found the Operator Lifecycle Manager", "catalogSource", source.String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = slices.DeleteFunc(c.waiting, func(do func(context.Context) error) bool {
		err := do(ctx)
		if err != nil {
			log.Error(err, "cannot use the Operator Lifecycle Manager yet, retrying")
		}
		return err == nil
	})
	return len(c.waiting) == 0
}

// find returns the name of the CatalogSource if the cluster has OLM and the manager may use it.
func (c *Cluster) find(ctx context.Context) (types.NamespacedName, error) {
	if err := c.checkServed(ctx); err != nil {
		return types.NamespacedName{}, err
	}
	if err := c.checkAllowed(ctx); err != nil {
		return types.NamespacedName{}, err
	}
	namespace, err := c.catalogNamespace(ctx)
	return types.NamespacedName{Namespace: namespace, Name: CatalogSourceName}, err
}

// checkServed requires all kinds: their CRDs are not created at the same time.
func (c *Cluster) checkServed(ctx context.Context) error {
	served := map[schema.GroupVersion][]metav1.APIResource{}
	for _, gvk := range kinds {
		version := gvk.GroupVersion()
		if _, asked := served[version]; !asked {
			list, err := c.Discovery.ServerResourcesForGroupVersionWithContext(ctx, version.String())
			switch {
			case apierrors.IsNotFound(err):
				return fmt.Errorf("the cluster does not serve %s: the Operator Lifecycle Manager is not installed", version)
			case err != nil:
				return fmt.Errorf("discovering the resources of %s: %w", version, err)
			}
			served[version] = list.APIResources
		}
		if !slices.ContainsFunc(served[version], func(r metav1.APIResource) bool { return r.Kind == gvk.Kind }) {
			return fmt.Errorf("the cluster does not serve %s of %s: the Operator Lifecycle Manager is not installed", gvk.Kind, version)
		}
	}
	return nil
}

// checkAllowed verifies that the manager may create Subscriptions.
func (c *Cluster) checkAllowed(ctx context.Context) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: operatorsv1alpha1.GroupName, Version: operatorsv1alpha1.GroupVersion, Resource: "subscriptions", Verb: "create",
		},
	}}
	if err := c.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("checking whether the manager may create Subscriptions: %w", err)
	}
	if !review.Status.Allowed {
		return errors.New("the manager may not create Subscriptions: install it with the component config/components/olm")
	}
	return nil
}

func (c *Cluster) catalogNamespace(ctx context.Context) (string, error) {
	if c.CatalogNamespace != "" {
		return c.CatalogNamespace, nil
	}
	for _, name := range catalogNamespaces {
		err := c.Reader.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if err == nil {
			return name, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading Namespace %q: %w", name, err)
		}
	}
	return "", fmt.Errorf("no global catalog namespace exists (%s): set --catalog-namespace", strings.Join(catalogNamespaces, ", "))
}

// KeepSubscription transforms Subscriptions for the cache: of Subscriptions to other catalogs, it keeps only the identity.
func KeepSubscription(object any) (any, error) {
	subscription, ok := object.(*operatorsv1alpha1.Subscription)
	if !ok {
		return object, nil // A metadata-only watch.
	}
	subscription.ManagedFields = nil
	if subscription.Spec != nil && subscription.Spec.CatalogSource == CatalogSourceName {
		return subscription, nil
	}
	return &operatorsv1alpha1.Subscription{TypeMeta: subscription.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: subscription.Namespace, Name: subscription.Name, UID: subscription.UID, ResourceVersion: subscription.ResourceVersion,
	}}, nil
}

// KeptWhole reports whether [KeepSubscription] kept the spec of a Subscription.
func KeptWhole(object client.Object) bool {
	return object.(*operatorsv1alpha1.Subscription).Spec != nil
}
