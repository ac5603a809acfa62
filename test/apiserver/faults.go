package apiserver

import (
	"cmp"
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Request is one of a client. The verb is get, list, create, apply, update, patch or delete, or the name of the subresource that is
// written, such as status. The kind of a list is that of its items, which has no name.
type Request struct {
	Verb, Kind, Namespace, Name string
	// Object is what is written, or what is read into.
	Object runtime.Object
}

// Around returns a client whose requests a function carries out, or not. Apply as a dry run is none of them.
func Around(c client.WithWatch, do func(ctx context.Context, r Request, carryOut func() error) error) client.WithWatch {
	pass := func(ctx context.Context, c client.Client, verb string, object runtime.Object, key client.ObjectKey, carryOut func() error) error {
		kind, err := c.GroupVersionKindFor(object)
		if err != nil {
			return err
		}
		return do(ctx, Request{Verb: verb, Kind: strings.TrimSuffix(kind.Kind, "List"), Namespace: key.Namespace, Name: key.Name, Object: object}, carryOut)
	}
	return &pointer{interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return pass(ctx, c, "get", object, key, func() error { return c.Get(ctx, key, object, options...) })
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return pass(ctx, c, "list", list, client.ObjectKey{}, func() error { return c.List(ctx, list, options...) })
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return pass(ctx, c, "create", object, client.ObjectKeyFromObject(object), func() error { return c.Create(ctx, object, options...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			apply := func() error { return c.Apply(ctx, object, options...) }
			if len((&client.ApplyOptions{}).ApplyOptions(options).DryRun) > 0 {
				return apply()
			}
			applied := object.(client.Object)
			return pass(ctx, c, "apply", applied, client.ObjectKeyFromObject(applied), apply)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			return pass(ctx, c, "update", object, client.ObjectKeyFromObject(object), func() error { return c.Update(ctx, object, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return pass(ctx, c, "patch", object, client.ObjectKeyFromObject(object), func() error { return c.Patch(ctx, object, patch, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return pass(ctx, c, "delete", object, client.ObjectKeyFromObject(object), func() error { return c.Delete(ctx, object, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			return pass(ctx, c, sub, object, client.ObjectKeyFromObject(object), func() error { return c.SubResource(sub).Patch(ctx, object, patch, options...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, object client.Object, options ...client.SubResourceUpdateOption) error {
			return pass(ctx, c, sub, object, client.ObjectKeyFromObject(object), func() error { return c.SubResource(sub).Update(ctx, object, options...) })
		},
	})}
}

// pointer can be compared with other clients, which those of package interceptor cannot.
type pointer struct{ client.WithWatch }

// Faults make requests fail, named "VERB Kind" or "VERB Kind name".
type Faults struct {
	mutex  sync.Mutex
	errs   map[string]error
	before map[string]func()
}

// Set makes requests fail with an error, or not any more with nil.
func (f *Faults) Set(what string, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.errs == nil {
		f.errs = map[string]error{}
	}
	f.errs[what] = err
}

// Clear lets no request fail any more.
func (f *Faults) Clear() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	clear(f.errs)
}

// Before calls a function before the next request, once.
func (f *Faults) Before(what string, do func()) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.before == nil {
		f.before = map[string]func(){}
	}
	f.before[what] = do
}

// Meet calls what is to be called before a request, and returns what the request fails with, or nil.
func (f *Faults) Meet(r Request) error {
	of := r.Verb + " " + r.Kind
	for _, what := range []string{of, of + " " + r.Name} {
		f.mutex.Lock()
		do := f.before[what]
		delete(f.before, what)
		f.mutex.Unlock()
		if do != nil {
			do()
		}
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return cmp.Or(f.errs[of], f.errs[of+" "+r.Name])
}

// Around returns a client whose requests fail. The verbs of its reads begin with a text, which may be empty.
func (f *Faults) Around(c client.WithWatch, reads string) client.WithWatch {
	return Around(c, func(_ context.Context, r Request, carryOut func() error) error {
		if r.Verb == "get" || r.Verb == "list" {
			r.Verb = reads + r.Verb
		}
		if err := f.Meet(r); err != nil {
			return err
		}
		return carryOut()
	})
}
