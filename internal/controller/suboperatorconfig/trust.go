package suboperatorconfig

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
)

// whenTrustChanges reconciles all SubOperatorConfigs, spread over a time that grows with their number.
func (r *configMapper) whenTrustChanges() handler.EventHandler {
	return handler.Funcs{
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			requests := r.requests(ctx)
			for _, request := range requests {
				queue.AddAfter(request, rand.N(time.Duration(len(requests))*trustedauthorities.TrustDelay))
			}
		},
	}
}
