package cache

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// catchUpTime is how long a read waits for the cache at most. It fails after that, and the reconcile that needs it is repeated.
const catchUpTime = 30 * time.Second

// readYourWrites reads what it has written: reads of OperatorCollections and SubOperatorConfigs wait until the cache has what this client
// created and patched of them before. Other kinds are left out: the cache does not have all that is written of them. So are deletions: reads
// would wait for ever for one that the watch does not report, such as that of an object which was deleted and made again meanwhile.
type readYourWrites struct {
	client.Client
	consistent client.Client
}

// NewClient is a [client.NewClientFunc]. Its options must have a cache.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	plain, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	cached := *options.Cache
	cached.EnableReadYourWritesConsistency = ptr.To(true)
	options.Cache = &cached
	consistent, err := client.New(config, options)
	return &readYourWrites{Client: plain, consistent: consistent}, err
}

// of returns the client for an object or a list.
func (c *readYourWrites) of(object any) client.Client {
	switch object.(type) {
	case *v2beta2.OperatorCollection, *v2beta2.OperatorCollectionList, *v2beta2.SubOperatorConfig, *v2beta2.SubOperatorConfigList:
		return c.consistent
	}
	return c.Client
}

func (c *readYourWrites) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return c.of(object).Get(ctx, key, object, options...)
}

func (c *readYourWrites) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	return c.of(list).List(ctx, list, options...)
}

func (c *readYourWrites) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return c.of(object).Create(ctx, object, options...)
}

func (c *readYourWrites) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	return c.of(object).Patch(ctx, object, patch, options...)
}

func (c *readYourWrites) Status() client.SubResourceWriter { return c.SubResource("status") }

func (c *readYourWrites) SubResource(name string) client.SubResourceClient {
	return &subResource{SubResourceClient: c.Client.SubResource(name), consistent: c.consistent.SubResource(name), of: c}
}

// subResource patches with the client of the object.
type subResource struct {
	client.SubResourceClient
	consistent client.SubResourceClient
	of         *readYourWrites
}

func (s *subResource) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	if s.of.of(object) == s.of.consistent {
		return s.consistent.Patch(ctx, object, patch, options...)
	}
	return s.SubResourceClient.Patch(ctx, object, patch, options...)
}
