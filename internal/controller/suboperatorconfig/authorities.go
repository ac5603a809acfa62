package suboperatorconfig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// whenAuthoritiesChange reconciles all SubOperatorConfigs within a time.
func (r *configMapper) whenAuthoritiesChange(spread time.Duration) handler.EventHandler {
	return handler.Funcs{
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, request := range r.requests(ctx) {
				queue.AddAfter(request, rand.N(max(spread, time.Nanosecond)))
			}
		},
	}
}

// updateAuthorities writes changed authorities to the ConfigMaps of operators that are installed. It does not depend on
// whether these can be updated otherwise: an operator that is suspended or being deleted, or waits for a grant or for the
// Operator Lifecycle Manager, must be able to restart. Namespaces that the manager must not write to are left out, and one that
// refuses the change does not affect the others.
func (r *Reconciler) updateAuthorities(ctx context.Context, s *configScope) error {
	if r.Authorities == nil {
		return nil
	}
	installer := r.installer()
	for _, ref := range s.soc.Status.Inventory {
		if ref.Kind != "ConfigMap" || !strings.HasSuffix(ref.Name, render.ConfigMapSuffix) || !mapping.Contains(s.mappings, ref.Namespace) ||
			installer.Trusts(ctx, s.soc, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, r.Authorities.Bundle()) {
			continue
		}
		err := r.updateAuthoritiesIn(ctx, s, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			s.problems = append(s.problems, status.Waiting(v2beta2.ReasonObjectRefused, intervals.Missing, "%w", err))
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *Reconciler) updateAuthoritiesIn(ctx context.Context, s *configScope, key client.ObjectKey) error {
	live := &corev1.ConfigMap{}
	if err := r.Reader.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading ConfigMap %q: %w", key, err)
	}
	bundle := r.Authorities.Bundle()
	// Without the key, an earlier version installed the operator, or a manager without TLS.
	before, has := live.Data[render.KeyArtifactAuthorities]
	if !has || before == bundle || bundle == "" || !install.OwnedBy(s.soc)(live) || live.DeletionTimestamp != nil {
		return nil
	}
	patch := client.MergeFrom(live.DeepCopy())
	live.Data[render.KeyArtifactAuthorities] = bundle
	if err := r.Client.Patch(ctx, live, patch, client.FieldOwner(apply.FieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the certificate authorities in ConfigMap %q: %w", key, err)
	}
	return nil
}
