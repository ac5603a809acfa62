// Package pace orders and limits the reconciles of controllers, so that no namespace delays the others by much, and has what their
// watches share.
package pace

import (
	"math"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Costs remember how many seconds the reconciles of each namespace took lately. The zero value is ready to use, also concurrently.
type Costs struct {
	mu sync.Mutex
	of map[string]cost
}

type cost struct {
	seconds float64
	at      time.Time
}

const (
	// costTime is the time after which a cost counts about a third.
	costTime = time.Minute
	// maxCost keeps objects that have changed before those that are only looked at again.
	maxCost = -handler.LowPriority - 1
	// manyCosts is the number of namespaces from which on those that cost nothing any more are forgotten.
	manyCosts = 1000
)

func (c cost) now(now time.Time) float64 {
	return c.seconds * math.Exp(-now.Sub(c.at).Seconds()/costTime.Seconds())
}

// Add adds the time of a reconcile.
func (c *Costs) Add(namespace string, took time.Duration) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]cost{}
	}
	c.of[namespace] = cost{c.of[namespace].now(now) + took.Seconds(), now}
	if len(c.of) > manyCosts {
		for name, cost := range c.of {
			if cost.now(now) < 0.01 {
				delete(c.of, name)
			}
		}
	}
}

// priority returns that of an object of a namespace: the lower, the more the namespace has cost.
func (c *Costs) priority(namespace string, usual int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return usual - min(int(c.of[namespace].now(time.Now())), maxCost)
}

// queue hands out the objects of the namespaces first whose reconciles took the least time lately. Objects that are only looked
// at again come last. So a namespace whose objects take long, or are many, delays others for one reconcile and not for all of them.
type queue[request comparable] struct {
	priorityqueue.PriorityQueue[request]
	costs *Costs
	// namespaceOf returns the namespace that a reconcile is for.
	namespaceOf func(request) string
}

// New returns a function that creates a queue, for the options of a controller. It hands out the requests of the namespaces first that cost
// the least. The reconciler adds the costs.
func New[request comparable](costs *Costs, namespaceOf func(request) string) func(string, workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
	return func(name string, limiter workqueue.TypedRateLimiter[request]) workqueue.TypedRateLimitingInterface[request] {
		return &queue[request]{
			PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[request]) { o.RateLimiter = limiter }),
			costs:         costs,
			namespaceOf:   namespaceOf,
		}
	}
}

// usualPriority returns the priority that an object would have if its namespace cost nothing.
func usualPriority(priority int) int {
	if priority <= handler.LowPriority {
		return handler.LowPriority
	}
	return 0
}

// AddWithOpts implements [priorityqueue.PriorityQueue].
func (q *queue[request]) AddWithOpts(o priorityqueue.AddOpts, requests ...request) {
	usual := usualPriority(ptr.Deref(o.Priority, 0))
	for _, each := range requests {
		o.Priority = ptr.To(q.costs.priority(q.namespaceOf(each), usual))
		q.PriorityQueue.AddWithOpts(o, each)
	}
}

// GetWithPriority implements [priorityqueue.PriorityQueue]. A request whose namespace has cost more since it was added is put back.
func (q *queue[request]) GetWithPriority() (next request, priority int, shutdown bool) {
	for {
		next, priority, shutdown = q.PriorityQueue.GetWithPriority()
		usual := usualPriority(priority)
		if shutdown || q.costs.priority(q.namespaceOf(next), usual) >= priority {
			return next, usual, shutdown
		}
		q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(usual)}, next)
		q.Done(next)
	}
}

// Get implements [workqueue.TypedInterface].
func (q *queue[request]) Get() (next request, shutdown bool) {
	next, _, shutdown = q.GetWithPriority()
	return next, shutdown
}

// Add implements [workqueue.TypedInterface].
func (q *queue[request]) Add(added request) {
	q.AddWithOpts(priorityqueue.AddOpts{}, added)
}

// AddAfter implements [workqueue.TypedDelayingInterface].
func (q *queue[request]) AddAfter(added request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, added)
}

// AddRateLimited implements [workqueue.TypedRateLimitingInterface].
func (q *queue[request]) AddRateLimited(added request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, added)
}
