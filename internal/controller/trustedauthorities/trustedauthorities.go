// Package trustedauthorities knows which certificate authorities the manager trusts when it fetches, and which its operators do.
package trustedauthorities

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/trust"
)

const (
	// TrustedAuthoritiesName is the name of the ConfigMap in the manager's namespace with the certificate authorities that an
	// administrator trusts.
	TrustedAuthoritiesName = "collection-operator-trusted-ca"
	// TrustedAuthoritiesKey is its key: the one that OpenShift fills.
	TrustedAuthoritiesKey = "ca-bundle.crt"

	// TrustDelay is the time per SubOperatorConfig within which all operators get changed authorities.
	TrustDelay = 50 * time.Millisecond
)

// TrustedAuthorities are the certificate authorities that an administrator trusts in addition to those of the images: for the manager's
// downloads, and in operators. A ConfigMap that cannot be used is reported by an event, and the last usable one counts: after a restart,
// operators keep what they have.
type TrustedAuthorities struct {
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events about the ConfigMap.
	Recorder events.EventRecorder
	// Namespace of the manager.
	Namespace string
	// System has, in PEM, the authorities of the image.
	System []byte

	// current is nil if the ConfigMap exists, and could not be used since the manager started.
	current atomic.Pointer[trust.Authorities]
	Changes chan event.GenericEvent
}

// Load reads the authorities, before the manager starts.
func (t *TrustedAuthorities) Load(ctx context.Context) error {
	t.Changes = make(chan event.GenericEvent, 1)
	_, err := t.read(ctx, t.Reader)
	return err
}

// Known is false if the ConfigMap exists, and could not be used since the manager started.
func (t *TrustedAuthorities) Known() bool { return t == nil || t.current.Load() != nil }

// PEM returns the authorities in PEM, or "" if there are none, or if they are not known.
func (t *TrustedAuthorities) PEM() string {
	if t == nil || t.current.Load() == nil {
		return ""
	}
	return t.current.Load().PEM
}

// Certificates returns the authorities.
func (t *TrustedAuthorities) Certificates() []*x509.Certificate {
	if t == nil || t.current.Load() == nil {
		return nil
	}
	return t.current.Load().Certificates
}

// read reports whether the authorities have changed.
func (t *TrustedAuthorities) read(ctx context.Context, reader client.Reader) (bool, error) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: TrustedAuthoritiesName}}
	err := reader.Get(ctx, client.ObjectKeyFromObject(config), config)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading ConfigMap %q: %w", TrustedAuthoritiesName, err)
	}
	bundle := config.Data[TrustedAuthoritiesKey]
	if err != nil { // It does not exist.
		bundle = ""
	}
	authorities, err := trust.Parse([]byte(bundle), t.System)
	if err != nil {
		consequence := "the authorities that were read before are still trusted"
		if !t.Known() {
			consequence = "operators keep the authorities that they have, and downloads trust those of the image only"
		}
		t.report(ctx, config, err, consequence)
		return false, nil
	}
	if authorities.Skipped > 0 {
		t.report(ctx, config, fmt.Errorf("%d of its blocks are skipped: %s", authorities.Skipped, authorities.Why), "all other authorities are trusted")
	}
	before := t.current.Swap(authorities)
	if before == nil && authorities.PEM == "" || before != nil && before.PEM == authorities.PEM {
		return before == nil, nil
	}
	log.FromContext(ctx).Info("trusting certificate authorities", "configMap", TrustedAuthoritiesName, "added", len(authorities.Certificates))
	return true, nil
}

// report records what is wrong with the ConfigMap, and what follows.
func (t *TrustedAuthorities) report(ctx context.Context, config *corev1.ConfigMap, err error, consequence string) {
	log.FromContext(ctx).Error(err, "the trusted authorities are not usable, or not all of them", "configMap", TrustedAuthoritiesName)
	t.Recorder.Eventf(config, nil, corev1.EventTypeWarning, v2beta2.ReasonTrustedAuthoritiesInvalid, "Read", "key %s: %s; %s",
		TrustedAuthoritiesKey, printable.Line(err.Error(), 512), consequence)
}

// SetupWithManager watches the one ConfigMap in all managers: whichever becomes the leader downloads archives.
func (t *TrustedAuthorities) SetupWithManager(mgr ctrl.Manager) error {
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{t.Namespace: {}}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, TrustedAuthoritiesName),
		}},
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(startedCache{own}); err != nil {
		return err
	}
	reconciler := reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
		changed, err := t.read(ctx, own)
		if changed {
			notify(t.Changes)
		}
		return ctrl.Result{}, err
	})
	return ctrl.NewControllerManagedBy(mgr).Named("trustedauthorities").
		WatchesRawSource(source.Kind(own, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})).
		WithOptions(controller.Options{NeedLeaderElection: new(false)}).Complete(reconciler)
}

// startedCache is a cache that a manager starts with its own, without being the leader.
type startedCache struct{ cache.Cache }

// GetCache tells the manager that this is a cache.
func (c startedCache) GetCache() cache.Cache { return c.Cache }

func notify(changes chan<- event.GenericEvent) {
	select {
	case changes <- event.GenericEvent{Object: &corev1.ConfigMap{}}:
	default: // An earlier change is not processed yet.
	}
}

// Authorities are the certificate authorities that pods trust for the download of archives. All operators get them when they
// change, without a rollout.
type Authorities struct {
	// Bundle returns the authorities in PEM, or "" as long as they are not known.
	Bundle func() string
	// Spread is the time over which the operators get changed authorities, to spread the load.
	Spread time.Duration

	Changes chan event.GenericEvent
}

// NewAuthorities makes Authorities.
func NewAuthorities(bundle func() string, spread time.Duration) *Authorities {
	return &Authorities{Bundle: bundle, Spread: spread, Changes: make(chan event.GenericEvent, 1)}
}

// Changed makes all operators get the authorities.
func (a *Authorities) Changed() { notify(a.Changes) }

// Known reports whether operators can be told whom to trust.
func (a *Authorities) Known() bool { return a == nil || a.Bundle() != "" }

// PEM returns the authorities, or "" if they are not known or a is nil.
func (a *Authorities) PEM() string {
	if a == nil {
		return ""
	}
	return a.Bundle()
}
