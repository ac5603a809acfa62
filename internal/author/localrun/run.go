// Package localrun runs the playbook of a custom resource without a cluster, with the engine of the runtime image: the same entry
// playbook, plugins, and gate, which talks to a small server of the Kubernetes API in this process instead of a cluster.
package localrun

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// The pod that holds the lock of the local operator.
const (
	podName = "local"
	podUID  = "11111111-2222-4333-8444-555555555555"
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

// Result is what a run did.
type Result struct {
	// ID is that of the run, and Changed are the names of its tasks that have changed something for the endpoint. Touched is true if not all of
	// them were delegated, as those that write the status are.
	ID      string
	Changed []string
	Touched bool
	// Resource is the custom resource after the run, with the status that the cluster would have.
	Resource *unstructured.Unstructured
	Took     time.Duration
	// Check is true for a run in check mode, which has a Report.
	Check  bool
	Report runstatus.Report
	// Again is when ansible-operator would call again, or 0.
	Again time.Duration
	// Ran is false if the gate did not start the playbook. Its output says why.
	Ran bool
	// Writes are the calls by which the playbook changed objects.
	Writes []Write
	// CleanUp says why the folder of the run, which has the credential, could not be removed.
	CleanUp error
}

// Succeeded reports whether the playbook ended well, or could be checked.
func (r Result) Succeeded() bool {
	if r.Check {
		return r.Ran && r.drifted()["reason"] != runstatus.ReasonCheckFailed
	}
	return r.Ran && r.Outcome().Succeeded()
}

// Requirements returns an error if a program that a run needs is missing on this machine.
func Requirements() error {
	var missing []string
	for _, program := range []string{"ansible-playbook", "ansible-runner", "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not found on PATH: %s. A run needs ansible-core 2.14 or newer, ansible-runner 2.3 or newer and OpenSSH 8.4 or newer: "+
		"pip install ansible-core ansible-runner kubernetes; on Debian: apt-get install ansible-core python3-ansible-runner openssh-client",
		strings.Join(missing, ", "))
}

// run is one prepared run.
type run struct {
	Options
	folder   folder
	kind     kind
	resource Object
	api      *api
	config   *corev1.ConfigMap
	id       string // Of the last call of the gate, and of the run that it starts.
}

// Run runs the playbook once. If the context ends, the run is cancelled, which takes some seconds. The error says why it could not be run; a playbook that failed is a Result.
func Run(ctx context.Context, o Options) (result Result, err error) {
	s, err := Start(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if result.CleanUp = s.Close(); err != nil {
			err, result.CleanUp = errors.Join(err, result.CleanUp), nil
		}
	}()
	switch {
	case o.Check:
		return s.CheckNew(ctx)
	case o.Event == gate.EventDelete:
		return s.Delete(ctx)
	}
	return s.Create(ctx)
}

// end stops the local API and removes the folder, as far as they exist.
func (r *run) end() error {
	if r.api != nil {
		_ = r.api.server.Close()
	}
	if r.folder == "" {
		return nil
	}
	if err := r.folder.remove(); err != nil {
		return fmt.Errorf("the folder %s has the credential and could not be removed: remove it: %w", r.folder, err)
	}
	return nil
}

// input is what a run is made of, once it is admitted.
type input struct {
	kinds   []kind
	kind    kind
	secrets map[string]*corev1.Secret
	// resource is the custom resource, others are the other objects of the files, and endpoint is that of the resource, or nil.
	resource Object
	others   []Object
	endpoint *v2beta2.ZosEndpoint
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

// connect returns the endpoint of the resource.
func (in input) connect(ctx context.Context, l Login, key []byte) (render.Endpoint, *v2beta2.ZosEndpoint, error) {
	name, _, _ := unstructured.NestedString(in.resource.Object, "spec", render.EndpointField)
	return connect(ctx, name, l, in.endpoint, in.secrets, endpoint.Key(key))
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
	in.kind = in.kinds[slices.IndexFunc(in.kinds, func(k kind) bool { return k.Kind == o.Kind })]
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

// prepare validates all input, and fills the local API.
func (r *run) prepare(ctx context.Context) error {
	in, err := r.admit()
	if err != nil {
		return err
	}
	r.kind, r.resource = in.kind, in.resource
	key := make([]byte, gate.RecordKeyBytes)
	_, _ = rand.Read(key) // It never fails.
	connection, zos, err := in.connect(ctx, r.Login, key)
	if err != nil {
		return err
	}
	if r.api, err = startAPI(append(usualKinds(), in.kinds...)); err != nil {
		return err
	}
	if err := r.fill(in.others, in.secrets, zos); err != nil {
		return err
	}
	return r.write(connection, key)
}

// kindsOf returns the kinds of a collection with the schemas of the CRDs that would be generated.
func kindsOf(c *model.Collection) ([]kind, error) {
	group := c.Group(false)
	crds, err := render.CRDs(c, group)
	if err != nil {
		return nil, err
	}
	var kinds []kind
	for _, definition := range crds {
		schema, err := crd.NewSchema(definition, c.APIVersion())
		if err != nil {
			return nil, err
		}
		k := kind{Plural: definition.Spec.Names.Plural, Namespaced: true, schema: schema}
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

// fill stores the objects that gate and playbook read.
func (r *run) fill(others []Object, secrets map[string]*corev1.Secret, zos *v2beta2.ZosEndpoint) error {
	zos.Namespace = r.Namespace
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: r.Namespace, UID: types.UID(podUID)}}
	state := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: endpoint.StateName(zos), Namespace: r.Namespace},
		Data:       map[string][]byte{endpoint.StateFile: (&endpoint.State{}).Marshal()},
	}
	typed := map[string][]any{"ZosEndpoint": {zos}, "Pod": {pod}, "Secret": {state}}
	for _, secret := range secrets {
		typed["Secret"] = append(typed["Secret"], secret)
	}
	for name, objects := range typed {
		for _, object := range objects {
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			if err != nil {
				return err
			}
			r.put(&unstructured.Unstructured{Object: content}, name)
		}
	}
	for _, o := range others {
		k, known := findKind(r.api.kinds, o.GroupVersionKind())
		switch {
		case !known:
			return o.problem("kind", "the local run does not know kind %s of %s", o.GetKind(), o.GetAPIVersion())
		case k.Kind == "Secret" || k.Kind == "ZosEndpoint":
			continue
		case k.schema != nil:
			if err := o.admit(k, r.Namespace); err != nil {
				return err
			}
		}
		o.SetNamespace(r.Namespace)
		r.api.put(k, o.Unstructured)
	}
	return nil
}

// put stores an object of a usual kind.
func (r *run) put(object *unstructured.Unstructured, name string) {
	for _, k := range r.api.kinds {
		if k.Kind == name && k.schema == nil {
			object.SetGroupVersionKind(k.GroupVersionKind)
			r.api.put(k, object)
			return
		}
	}
}

// write makes the folder of the run.
func (r *run) write(connection render.Endpoint, key []byte) error {
	c := r.Source.Collection
	objects, err := render.Installation(c, render.InstallationOptions{
		Namespace: r.Namespace, Group: r.kind.Group, Digest: r.Source.Digest, Runtime: v2beta2.RuntimeSpec{Image: "local"},
	})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if config, ok := object.(*corev1.ConfigMap); ok {
			r.config = config
		}
	}
	endpoints, err := render.EndpointsSecret(c, r.Namespace, r.Namespace, []render.Endpoint{connection}, render.Lasting{RecordKey: key})
	if err != nil {
		return err
	}
	if r.Check {
		if err := r.allowCheck(); err != nil {
			return err
		}
	}
	if r.folder, err = newFolder(); err != nil {
		return err
	}
	kubeconfig, err := r.api.kubeconfig(r.Namespace)
	if err != nil {
		return err
	}
	return errors.Join(r.folder.linkImageCollections(), r.folder.write("kubeconfig", kubeconfig, 0o600), r.folder.mount(r.config, endpoints))
}

// install unpacks the archive, and installs what the collection depends on.
func (r *run) install(ctx context.Context) error {
	if err := r.folder.installContent(r.Source.Collection, r.Source.Archive); err != nil {
		return err
	}
	return r.folder.installDependencies(ctx, r.config, r.Output)
}

// reconcile does what ansible-operator and the gate do for one event.
func (r *run) reconcile(ctx context.Context) (Result, error) {
	started := time.Now()
	again, err := r.call(ctx)
	if err != nil {
		return Result{}, err
	}
	live := r.api.get(r.kind, r.Namespace, r.resource.GetName())
	if live == nil {
		return Result{}, fmt.Errorf("the playbook deleted its own resource %s %s", r.Kind, r.resource.GetName())
	}
	return Result{Resource: live, Took: time.Since(started), Again: again, Writes: shown(r.api.taken())}, nil
}

// drifted returns the condition with the result of a check, or nil.
func (r Result) drifted() map[string]any {
	conditions, _, _ := unstructured.NestedSlice(r.Resource.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == runstatus.ConditionDrifted {
			return c
		}
	}
	return nil
}

func statusOf(o *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	return status
}
