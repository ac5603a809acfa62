package localrun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// maxObjects limits a file with objects, in bytes.
const maxObjects = 4 << 20

// Object is one document of a file.
type Object struct {
	*unstructured.Unstructured
	file string
	node *yaml.Node
}

// ReadObjects reads the objects in YAML files. The errors name file and line.
func ReadObjects(files []string) ([]Object, error) {
	var objects []Object
	var errs []error
	for _, file := range files {
		found, err := readObjects(file)
		objects, errs = append(objects, found...), append(errs, err)
	}
	return objects, errors.Join(errs...)
}

func readObjects(name string) ([]Object, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxObjects+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxObjects {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxObjects)
	}
	var objects []Object
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		object, err := parseObject(name, &document)
		if err != nil {
			return nil, err
		}
		if object != nil {
			objects = append(objects, *object)
		}
	}
}

// parseObject returns nil for an empty document.
func parseObject(file string, document *yaml.Node) (*Object, error) {
	if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
		return nil, nil
	}
	object, err := NewObject(file, document.Content[0])
	return &object, err
}

// NewObject returns the object in a part of a YAML file, which has no aliases.
func NewObject(file string, root *yaml.Node) (Object, error) {
	text, err := yaml.Marshal(root)
	if err != nil {
		return Object{}, fmt.Errorf("%s:%d: %w", file, root.Line, err)
	}
	content, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return Object{}, fmt.Errorf("%s:%d: %w", file, root.Line, err)
	}
	object, err := kubeapi.Decode(content)
	if err != nil || root.Kind != yaml.MappingNode {
		return Object{}, fmt.Errorf("%s:%d: this is not a Kubernetes object", file, root.Line)
	}
	return Object{Unstructured: object, file: file, node: root}, nil
}

var step = regexp.MustCompile(`[^.\[\]]+`)

// place returns file and line of a field, such as spec.items[0].name, or of the deepest of its parents that is there.
func (o Object) place(path string) string {
	line, node := o.node.Line, o.node
	for _, name := range step.FindAllString(path, -1) {
		var key, value *yaml.Node
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(node.Content); i += 2 {
				if node.Content[i].Value == name {
					key, value = node.Content[i], node.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			var i int
			if _, err := fmt.Sscanf(name, "%d", &i); err == nil && i >= 0 && i < len(node.Content) {
				key, value = node.Content[i], node.Content[i]
			}
		default:
		}
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return fmt.Sprintf("%s:%d", o.file, line)
}

func (o Object) problem(path, format string, args ...any) error {
	return fmt.Errorf("%s: %s %s: %s", o.place(path), o.GetKind(), o.GetName(), fmt.Sprintf(format, args...))
}

// ownAnnotations are those with which the gate keeps its record, and is asked for something.
var ownAnnotations = []string{
	gate.AnnotationRecord, gate.AnnotationRequestedAt, gate.AnnotationCancel, gate.AnnotationAbandon, gate.AnnotationCheckRequestedAt,
	gate.AnnotationAcceptDefaults,
}

// renew removes what a cluster has added to a resource, as in the output of kubectl get. Otherwise the gate would take it for one whose
// playbook has run already.
func (o Object) renew() {
	unstructured.RemoveNestedField(o.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	for _, name := range ownAnnotations {
		unstructured.RemoveNestedField(o.Object, "metadata", "annotations", name)
	}
}

// admit completes a custom resource as the API server does, and returns all reasons for which kubectl or the API server would refuse it.
func (o Object) admit(k kubeapi.Kind, namespace string) error {
	var errs []error
	if o.GetAPIVersion() == "" {
		o.SetAPIVersion(k.GroupVersion().String())
	}
	if o.GetAPIVersion() != k.GroupVersion().String() {
		errs = append(errs, o.problem("apiVersion", "apiVersion is %s: this version of the collection has %s", o.GetAPIVersion(), k.GroupVersion()))
	}
	if problems := validation.IsDNS1123Subdomain(o.GetName()); len(problems) > 0 {
		errs = append(errs, o.problem("metadata.name", "metadata.name: %s", strings.Join(problems, "; ")))
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	if o.GetNamespace() != namespace {
		errs = append(errs, o.problem("metadata.namespace", "metadata.namespace is %s, and the run is in %s: use --namespace", o.GetNamespace(), namespace))
	}
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, unknown := range pruning.PruneWithOptions(o.Object, k.Schema.Structural, true, options) {
		errs = append(errs, o.problem(unknown, "unknown field %q", unknown))
	}
	for _, p := range k.Admit(o.Unstructured) {
		errs = append(errs, o.problem(p.Field, "%s", p.Error()))
	}
	return errors.Join(errs...)
}

// split finds the resource of a kind to run, the endpoint that it names, and all other objects.
func split(objects []Object, k kubeapi.Kind) (resource Object, endpoint *v2beta2.ZosEndpoint, others []Object, err error) {
	for _, o := range objects {
		if o.GetKind() == k.Kind && (o.GetAPIVersion() == "" || o.GroupVersionKind().Group == k.Group) {
			if resource.Unstructured != nil {
				return resource, nil, nil, o.problem("", "the files have more than one %s: give one", k.Kind)
			}
			resource = o
			continue
		}
		others = append(others, o)
	}
	if resource.Unstructured == nil {
		return resource, nil, nil, fmt.Errorf("the files have no %s", k.Kind)
	}
	name, _, _ := unstructured.NestedString(resource.Object, "spec", "zosendpoint")
	for _, o := range others {
		if o.GroupVersionKind() == v2beta2.GroupVersion.WithKind("ZosEndpoint") && o.GetName() == name {
			endpoint = &v2beta2.ZosEndpoint{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, endpoint); err != nil {
				return resource, nil, nil, o.problem("spec", "%v", err)
			}
		}
	}
	return resource, endpoint, others, nil
}

// findSecret returns a Secret of the files, with stringData in data, or nil.
func findSecret(objects []Object, name string) (*corev1.Secret, error) {
	for _, o := range objects {
		if o.GetKind() != "Secret" || o.GetAPIVersion() != "v1" || o.GetName() != name {
			continue
		}
		secret := &corev1.Secret{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, secret); err != nil {
			return nil, o.problem("data", "data cannot be read: %v", err)
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		for key, value := range secret.StringData {
			secret.Data[key] = []byte(value)
		}
		secret.StringData = nil
		return secret, nil
	}
	return nil, nil
}

// SecretValue is one key of a Secret that is not in a file with objects. Playbooks may read a Secret that is in no file; one in a file
// needs the label, as in a cluster.
type SecretValue struct {
	Secret, Key string
	Value       []byte
}

// secretsOf returns the Secrets of the files together with other values.
func secretsOf(objects []Object, values []SecretValue, namespace string) (map[string]*corev1.Secret, error) {
	secrets := map[string]*corev1.Secret{}
	var errs []error
	for _, o := range objects {
		if o.GetKind() == "Secret" {
			secret, err := findSecret(objects, o.GetName())
			if secret != nil {
				secrets[o.GetName()] = secret
			}
			errs = append(errs, err)
		}
	}
	for _, v := range values {
		if secrets[v.Secret] == nil {
			secrets[v.Secret] = &corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Name: v.Secret, Labels: map[string]string{v2beta2.LabelRuntime: v2beta2.LabelRuntimeAll}},
				Data:       map[string][]byte{},
			}
		}
		secrets[v.Secret].Data[v.Key] = v.Value
	}
	for _, secret := range secrets {
		secret.Namespace = namespace
	}
	return secrets, errors.Join(errs...)
}
