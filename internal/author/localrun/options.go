package localrun

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Source is a collection as a cluster gets it.
type Source struct {
	Collection *model.Collection
	// Archive is the content of the archive, and Digest its digest.
	Archive []byte
	Digest  digest.Digest
}

// Options say what is run.
type Options struct {
	Source  Source
	Kind    string
	Objects []Object
	// Secrets are values that are in no file with objects.
	Secrets   []SecretValue
	Login     Login
	Namespace string
	Event     gate.Event
	// Check runs the playbook in Ansible's check mode.
	Check bool
	// Gate is the program that is the gate when it is called as ansible-runner.
	Gate string
	// Output gets the lines of the run, and those of the installation of dependencies.
	Output io.Writer
}

// Validate returns all that is wrong with resource and endpoint, as far as a run is not needed to find it.
func (o Options) Validate(ctx context.Context) error {
	in, err := o.admit()
	if err != nil {
		return err
	}
	_, _, err = in.connect(ctx, o.Login, make([]byte, gate.RecordKeyBytes))
	return err
}

// IsLocal reports whether the run of a resource would be on this machine, without a connection.
func (o Options) IsLocal() bool {
	if o.Login.Host != "" || o.Login.Local {
		return o.Login.Local
	}
	_, declared, _, err := split(o.Objects, kubeapi.Kind{GroupVersionKind: schema.GroupVersionKind{Group: o.Source.Collection.Group(false), Kind: o.Kind}})
	return err == nil && declared != nil && declared.Spec.EndpointType == v2beta2.EndpointLocal
}

func (o Options) admit() (in input, err error) {
	c := o.Source.Collection
	declared, ok := c.Resource(o.Kind)
	if !ok {
		return in, fmt.Errorf("the collection has no kind %s: it has %s", o.Kind, strings.Join(kindNames(c), ", "))
	}
	if o.Event == gate.EventDelete && declared.Finalizer == "" {
		return in, fmt.Errorf("kind %s has no finalizer playbook: a cluster removes its resources without a run", o.Kind)
	}
	if in.kinds, err = kindsOf(c); err != nil {
		return in, err
	}
	in.kind = in.kinds[slices.IndexFunc(in.kinds, func(k kubeapi.Kind) bool { return k.Kind == o.Kind })]
	if in.resource, in.endpoint, in.others, err = split(o.Objects, in.kind); err != nil {
		return in, err
	}
	in.resource.renew()
	if err := in.resource.admit(in.kind, o.Namespace); err != nil {
		return in, err
	}
	in.secrets, err = secretsOf(in.others, o.Secrets, o.Namespace)
	return in, err
}

// input is what a run is made of, once it is admitted.
type input struct {
	kinds   []kubeapi.Kind
	kind    kubeapi.Kind
	secrets map[string]*corev1.Secret
	// resource is the custom resource, others are the other objects of the files, and endpoint is that of the resource, or nil.
	resource Object
	others   []Object
	endpoint *v2beta2.ZosEndpoint
}

// connect returns the endpoint of the resource.
func (in input) connect(ctx context.Context, l Login, key []byte) (render.Endpoint, *v2beta2.ZosEndpoint, error) {
	name, _, _ := unstructured.NestedString(in.resource.Object, "spec", render.EndpointField)
	return connect(ctx, name, l, in.endpoint, in.secrets, endpoint.Key(key))
}

// kindsOf returns the kinds of a collection with the schemas of the CRDs that would be generated.
func kindsOf(c *model.Collection) ([]kubeapi.Kind, error) {
	group := c.Group(false)
	crds, err := render.CRDs(c, group)
	if err != nil {
		return nil, err
	}
	var kinds []kubeapi.Kind
	for _, definition := range crds {
		schema, err := crd.NewSchema(definition, c.APIVersion())
		if err != nil {
			return nil, err
		}
		k := kubeapi.Kind{Plural: definition.Spec.Names.Plural, Namespaced: true, Schema: schema}
		k.Group, k.Version, k.Kind = group, c.APIVersion(), definition.Spec.Names.Kind
		kinds = append(kinds, k)
	}
	return kinds, nil
}

func kindNames(c *model.Collection) []string {
	names := make([]string, len(c.Resources))
	for i, r := range c.Resources {
		names[i] = r.Kind
	}
	return names
}
