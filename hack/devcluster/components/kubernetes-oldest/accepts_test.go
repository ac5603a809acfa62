// Package oldest asks the code of the oldest supported version of Kubernetes whether its API server accepts our manifests, and what
// the manager makes of collections. It finds fields that are newer, functions of CEL that are newer, and rules whose estimated cost
// exceeds the limits of that version.
package oldest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	extensionsinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	extensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	admissioninstall "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	admissionvalidation "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	"sigs.k8s.io/yaml"
)

const repository = "../../../.."

// folders hold what is applied, and what the manager makes of collections.
var folders = []string{"config", "internal/collection/render/testdata/golden"}

// The kinds whose rules are checked.
var (
	definitionKind = schema.GroupKind{Group: apiextensions.GroupName, Kind: "CustomResourceDefinition"}
	policyKind     = schema.GroupKind{Group: admissionregistration.GroupName, Kind: "ValidatingAdmissionPolicy"}
)

func TestOldestKubernetesAcceptsWhatIsApplied(t *testing.T) {
	server := newServer(t)
	seen := map[schema.GroupKind]int{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(repository, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			return eachObject(path, func(object []byte) {
				kind, err := server.check(object)
				if err != nil {
					t.Errorf("%s: %v", strings.TrimPrefix(path, repository+"/"), err)
				}
				seen[kind]++
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen[definitionKind] < 11 || seen[policyKind] < 14 || len(seen) < 15 {
		t.Errorf("too few objects were found: have the folders moved? %v", seen)
	}
}

// Without this, a test that decodes nothing would pass.
func TestOldestKubernetesRefuses(t *testing.T) {
	server := newServer(t)
	const rule = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: xs.example.com}, spec: {group: example.com,
  names: {kind: X, listKind: XList, plural: xs, singular: x}, scope: Namespaced, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema:
  {type: object, properties: {x: {type: string, maxLength: 43, x-kubernetes-validations: [{rule: %q}]}}}}}]}}`
	const policy = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: x}, spec: {validations: [{expression: %q}],
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}}}`
	for object, want := range map[string]string{
		fmt.Sprintf(rule, "cidr(self) == cidr('10.0.0.0/8')"):                             "estimated rule cost exceeds budget",
		fmt.Sprintf(rule, "isSemver(self)"):                                               "undeclared reference",
		fmt.Sprintf(rule, "isCIDR(self)"):                                                 "",
		fmt.Sprintf(policy, "object.spec.containers.all(i, c, i < 9)"):                    "undeclared reference",
		fmt.Sprintf(policy, "isSemver(object.metadata.name)"):                             "undeclared reference",
		`{apiVersion: v1, kind: Pod, spec: {containers: [{name: x, newer: true}]}}`:       `unknown field "spec.containers[0].newer"`,
		`{apiVersion: apps/v1, kind: Newer}`:                                              "no kind",
		`{apiVersion: kustomize.config.k8s.io/v1beta1, kind: Kustomization, newer: true}`: "",
	} {
		_, err := server.check([]byte(object))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s\nwant %q, got %v", object, want, err)
		}
	}
}

// server decodes and validates as the API server does.
type server struct {
	scheme  *runtime.Scheme
	decoder runtime.Decoder
}

func newServer(t *testing.T) server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	extensionsinstall.Install(scheme)
	admissioninstall.Install(scheme)
	return server{scheme: scheme, decoder: serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()}
}

// check returns the kind of an object, and why the API server would refuse to create it. It knows nothing of groups that others define.
func (s server) check(content []byte) (schema.GroupKind, error) {
	meta := runtime.TypeMeta{}
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return schema.GroupKind{}, err
	}
	kind := meta.GroupVersionKind()
	if !s.scheme.IsGroupRegistered(kind.Group) {
		return kind.GroupKind(), nil
	}
	content, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return kind.GroupKind(), err
	}
	object, _, err := s.decoder.Decode(content, nil, nil)
	if err != nil {
		return kind.GroupKind(), err
	}
	switch kind.GroupKind() {
	case definitionKind:
		definition := &apiextensions.CustomResourceDefinition{}
		if err := s.internal(object, definition); err != nil {
			return definitionKind, err
		}
		for _, version := range definition.Spec.Versions {
			if version.Storage {
				definition.Status.StoredVersions = []string{version.Name}
			}
		}
		return definitionKind, extensionsvalidation.ValidateCustomResourceDefinition(context.Background(), definition).ToAggregate()
	case policyKind:
		policy := &admissionregistration.ValidatingAdmissionPolicy{}
		if err := s.internal(object, policy); err != nil {
			return policyKind, err
		}
		return policyKind, admissionvalidation.ValidateValidatingAdmissionPolicy(policy).ToAggregate()
	}
	return kind.GroupKind(), nil
}

// internal sets defaults, and converts an object to the type that is validated.
func (s server) internal(object, into runtime.Object) error {
	s.scheme.Default(object)
	return s.scheme.Convert(object, into, nil)
}

// eachObject calls a function for each document of a file.
func eachObject(path string, call func([]byte)) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		object, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		call(object)
	}
}
