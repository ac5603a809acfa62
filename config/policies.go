// Package config has the ValidatingAdmissionPolicies of Collection Operator, for installations that cannot contain them: the
// Operator Lifecycle Manager supports no policies in bundles.
package config

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed policy/*.yaml components/administrators-only/policy.yaml
var files embed.FS

// Policies returns the policies that `make deploy` applies and those of the component administrators-only, each followed by its
// binding, in the order of the names of their files.
func Policies() ([]*unstructured.Unstructured, error) {
	var policies []*unstructured.Unstructured
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		found, err := policiesOf(content)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		policies = append(policies, found...)
		return nil
	})
	return policies, err
}

// policiesOf returns the policies and bindings among the objects of a file.
func policiesOf(content []byte) ([]*unstructured.Unstructured, error) {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var policies []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return policies, nil
		} else if err != nil {
			return nil, err
		}
		switch object.GetKind() {
		case "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding":
			policies = append(policies, object)
		}
	}
}
