// Package localrun runs the playbook of a custom resource without a cluster, with the engine of the runtime image: the same entry
// playbook, plugins, and gate, which talks to a small server of the Kubernetes API in this process instead of a cluster.
package localrun

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// run is one prepared run.
type run struct {
	Options
	folder   folder
	kind     kubeapi.Kind
	resource Object
	api      *kubeapi.Server
	config   *corev1.ConfigMap
	id       string // Of the last call of the gate, and of the run that it starts.
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
	if r.api, err = kubeapi.Start(append(kubeapi.UsualKinds(), in.kinds...)); err != nil {
		return err
	}
	if err := r.fill(in.others, in.secrets, zos); err != nil {
		return err
	}
	return r.write(connection, key)
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
		k, known := kubeapi.FindKind(r.api.Kinds, o.GroupVersionKind())
		switch {
		case !known:
			return o.problem("kind", "the local run does not know kind %s of %s", o.GetKind(), o.GetAPIVersion())
		case k.Kind == "Secret" || k.Kind == "ZosEndpoint":
			continue
		case k.Schema != nil:
			if err := o.admit(k, r.Namespace); err != nil {
				return err
			}
		}
		o.SetNamespace(r.Namespace)
		r.api.Put(k, o.Unstructured)
	}
	return nil
}

// put stores an object of a usual kind.
func (r *run) put(object *unstructured.Unstructured, name string) {
	for _, k := range r.api.Kinds {
		if k.Kind == name && k.Schema == nil {
			object.SetGroupVersionKind(k.GroupVersionKind)
			r.api.Put(k, object)
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
	kubeconfig, err := r.api.Kubeconfig(r.Namespace)
	if err != nil {
		return err
	}
	return errors.Join(r.folder.linkImageCollections(), r.folder.write("kubeconfig", kubeconfig, 0o600), r.folder.mount(r.config, endpoints))
}

// allowCheck lets the gate check a kind that does not declare supportsCheckMode: a cluster would not.
func (r *run) allowCheck() error {
	var settings gate.Settings
	if err := json.Unmarshal([]byte(r.config.Data[gate.SettingsFile]), &settings); err != nil {
		return err
	}
	k := settings.Kinds[r.Kind]
	k.CheckMode = true
	settings.Kinds[r.Kind] = k
	content, err := json.Marshal(settings)
	r.config.Data[gate.SettingsFile] = string(content)
	return err
}

// install unpacks the archive, and installs what the collection depends on.
func (r *run) install(ctx context.Context) error {
	if err := r.folder.installContent(r.Source.Collection, r.Source.Archive); err != nil {
		return err
	}
	return r.folder.installDependencies(ctx, r.config, r.Output)
}

// end stops the local API and removes the folder, as far as they exist.
func (r *run) end() error {
	if r.api != nil {
		_ = r.api.Close()
	}
	if r.folder == "" {
		return nil
	}
	if err := r.folder.remove(); err != nil {
		return fmt.Errorf("the folder %s has the credential and could not be removed: remove it: %w", r.folder, err)
	}
	return nil
}
