package controller_test

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var errAway = errors.New("the API server is away")

// faults are what requests of a reconciler fail with, by "VERB Kind" or "VERB Kind name". The verb is get, list, create, apply, update,
// patch, delete or status. That of reads which bypass the cache is "live get" or "live list".
type faults struct {
	mutex sync.Mutex
	of    map[string]error
	// before, if it is set, is called before each write, with the verb.
	before func(verb string, object client.Object)
}

func newFaults() *faults { return &faults{of: map[string]error{}} }

func (f *faults) set(what string, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.of[what] = err
}

func (f *faults) clear() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	clear(f.of)
}

func (f *faults) find(c client.Client, verb string, object runtime.Object, name string) error {
	kind, err := c.GroupVersionKindFor(object)
	f.mutex.Lock()
	defer f.mutex.Unlock()
	what := verb + " " + kind.Kind
	return cmp.Or(err, f.of[what], f.of[what+" "+name])
}

// write returns the failure of a write, or nil.
func (f *faults) write(c client.Client, verb string, object client.Object) error {
	if f.before != nil {
		f.before(verb, object)
	}
	return f.find(c, verb, object, object.GetName())
}

// around returns a client whose requests fail. The verbs of its reads begin with live.
func (f *faults) around(c client.WithWatch, live string) client.WithWatch {
	return &clientPointer{interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := f.find(c, live+"get", object, key.Name); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := f.find(c, live+"list", list, ""); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := f.write(c, "create", object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := f.write(c, "update", object); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := f.write(c, "patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := f.write(c, "delete", object); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if len((&client.ApplyOptions{}).ApplyOptions(options).DryRun) == 0 {
				if err := f.find(c, "apply", object.(runtime.Object), object.(client.Object).GetName()); err != nil {
					return err
				}
			}
			return c.Apply(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := f.write(c, sub, object); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, object, patch, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if err := f.write(c, sub, object); err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, object, options...)
		},
	})}
}

// clientPointer can be compared with other clients, which those of package interceptor cannot.
type clientPointer struct{ client.WithWatch }
