package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/bench/report"
)

// These measure and assert nothing about time. Each needs a control plane of its own: make bench-scale runs them one by one.
var _ = Describe("Scale", Serial, Label("scale"), func() {
	It("installs many collections", func(ctx context.Context) {
		count := size("BENCH_COLLECTIONS")
		s := newScale(ctx)
		s.setStarts(ctx, true)
		collections := s.collections(ctx, count)
		s.phase("install", func() error {
			create(ctx, collections)
			return s.allReady(ctx, collections...)
		})
		s.rest(ctx, "come to rest")
		s.minute(ctx, "a quiet minute")
		s.change(ctx, collections[0].(*v2beta2.OperatorCollection))
		s.restart(ctx)
		s.dump(ctx, count)
		s.save(fmt.Sprintf("install-%d", count), report.Scale{Collections: count})
	})

	It("waits for many installations whose pods cannot start", func(ctx context.Context) {
		count := size("BENCH_COLLECTIONS")
		s := newScale(ctx)
		collections := s.collections(ctx, count)
		s.phase("install what cannot start", func() error {
			create(ctx, collections)
			return s.await(ctx, func() (bool, error) {
				deployments := &appsv1.DeploymentList{}
				err := s.view.List(ctx, deployments, client.UnsafeDisableDeepCopy)
				return len(deployments.Items) == count, err
			})
		})
		s.minute(ctx, "the minute after")
		s.minute(ctx, "another minute")
		s.restart(ctx)
		s.phase("start at last", func() error {
			s.setStarts(ctx, true)
			return s.allReady(ctx, collections...)
		})
		s.save(fmt.Sprintf("waiting-%d", count), report.Scale{Collections: count})
	})
})

// change measures until a new version of one collection is Ready, and then its requests until the manager is at rest.
func (s *scale) change(ctx context.Context, oc *v2beta2.OperatorCollection) {
	GinkgoHelper()
	next := pinned(threeKinds(0, "1.0.1"))
	s.phase("change one", func() error {
		changeSpec(ctx, oc, next)
		return s.allReady(ctx, oc)
	})
	s.rest(ctx, "come to rest after it")
}

// rest measures until the manager's last request.
func (s *scale) rest(ctx context.Context, name string) {
	GinkgoHelper()
	var rest time.Duration
	phase := s.phase(name, func() error { rest = s.settle(ctx); return nil })
	phase.Seconds = rest.Seconds()
}

// minute counts for a minute in which nothing is asked of the manager.
func (s *scale) minute(ctx context.Context, name string) {
	GinkgoHelper()
	s.phase(name, func() error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return nil
		}
	})
}

// restart measures from the start of a new process until its last request.
func (s *scale) restart(ctx context.Context) {
	GinkgoHelper()
	var rest time.Duration
	phase := s.phase("restart", func() error {
		theManager.stop()
		begin := time.Now()
		theManager.start(ctx)
		started := time.Since(begin)
		rest = started + s.settle(ctx)
		return nil
	})
	phase.Seconds = rest.Seconds()
}
