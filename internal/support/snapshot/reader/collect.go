package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

const (
	// pageSize is the number of objects that are read with one request.
	pageSize = 250
	// maxObjects is the number of objects of a kind that are read at most, in one namespace or in all.
	maxObjects = 5000
	// maxNamespaces is the number of namespaces that are read one by one.
	maxNamespaces = 100
	// maxConcurrentRequests limits what is asked at the same time.
	maxConcurrentRequests = 8
)

// Clients of a cluster.
type Clients struct {
	Dynamic   dynamic.Interface
	Discovery discovery.DiscoveryInterface
	// Core is the client of the API group with Secrets.
	Core rest.Interface
}

// Scope is what is to be read.
type Scope struct {
	// Namespace, or empty for all. The namespaces that its SubOperatorConfigs map are read too, and of the SubOperatorConfigs that map it
	// what its operators depend on.
	Namespace string
	// ManagerNamespace is where the manager is looked for by users who may not look for it in all namespaces.
	ManagerNamespace string
}

// collecting reads a snapshot.
type collecting struct {
	dynamic dynamic.Interface
	core    rest.Interface
	scope   Scope
	// hasOLM is true if the cluster serves the API of the Operator Lifecycle Manager.
	hasOLM bool
	// kinds of collections.
	kinds []schema.GroupVersionResource
	// keeps reports whether an object that was read is kept. It is called by one goroutine at a time.
	keeps func(*unstructured.Unstructured) bool

	mutex    sync.Mutex
	snapshot *snapshot.Snapshot
}

// query is a list, or with a name one object.
type query struct {
	resource        schema.GroupVersionResource
	namespace, name string
	labels          string
	// set is that of the objects, or empty.
	set snapshot.Complete
	// otherwise is read if the user may not read this.
	otherwise *query
}

func core(resource string) schema.GroupVersionResource {
	return corev1.SchemeGroupVersion.WithResource(resource)
}

// read reads queries at the same time.
func (c *collecting) read(ctx context.Context, queries []query) {
	var group errgroup.Group
	group.SetLimit(maxConcurrentRequests)
	for _, q := range queries {
		if q.resource == core("namespaces") && q.name == metav1.NamespaceAll {
			continue
		}
		group.Go(func() error {
			c.one(ctx, q)
			return nil
		})
	}
	_ = group.Wait()
}

func (c *collecting) one(ctx context.Context, q query) {
	err := c.objects(ctx, q)
	if err == nil {
		return
	}
	if q.otherwise != nil && apierrors.IsForbidden(err) {
		c.one(ctx, *q.otherwise)
		return
	}
	c.failed(err, q.resource.Resource, q.namespace)
}

// errTooMany ends a list.
var errTooMany = errors.New("too many objects")

func (c *collecting) objects(ctx context.Context, q query) error {
	client := c.dynamic.Resource(q.resource).Namespace(q.namespace)
	if q.name != "" {
		object, err := client.Get(ctx, q.name, metav1.GetOptions{})
		if err == nil {
			c.add(object)
		}
		return err
	}
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.List(ctx, options)
	})
	pages.PageSize, pages.PageBufferSize = pageSize, 0
	n := 0
	err := pages.EachListItem(ctx, metav1.ListOptions{LabelSelector: q.labels}, func(object runtime.Object) error {
		if n++; n > maxObjects {
			return errTooMany
		}
		c.add(object.(*unstructured.Unstructured))
		return nil
	})
	if errors.Is(err, errTooMany) {
		c.unread(fmt.Sprintf("only the first %d %s were read", maxObjects, q.resource.Resource))
		q.set, err = "", nil
	}
	if err != nil {
		return err
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.snapshot.Lists++
	if q.set != "" {
		c.snapshot.Completed(q.set, q.namespace)
	}
	return nil
}

func (c *collecting) add(object *unstructured.Unstructured) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.keeps(object) {
		c.snapshot.Add(object)
	}
}

func (c *collecting) unread(problem string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.snapshot.Unread = append(c.snapshot.Unread, problem)
}

// failed records what could not be read. That a kind is not served, or an object is gone, is not recorded.
func (c *collecting) failed(err error, what, namespace string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	unreadable(c.snapshot, err, what, namespace)
}

// unreadable records in a snapshot what could not be read, and counts it unless the user may not read it.
func unreadable(s *snapshot.Snapshot, err error, what, namespace string) {
	where := ""
	if namespace != "" {
		where = " in namespace " + namespace
	}
	switch {
	case apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		s.Unread = append(s.Unread, "you may not read "+what+where)
	default:
		s.Failed++
		s.Unread = append(s.Unread, what+where+" could not be read: "+err.Error())
	}
}
