package config

import (
	"embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crd/bases/*.yaml
var definitions embed.FS

// SubOperatorConfigs returns the CustomResourceDefinition of SubOperatorConfigs, whose rules say what spec.runtime may have.
func SubOperatorConfigs() (*apiextensionsv1.CustomResourceDefinition, error) {
	return readDefinition("zoscb.ibm.com_suboperatorconfigs.yaml")
}

// Definitions returns the CustomResourceDefinitions that are installed with the manager.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := definitions.ReadDir("crd/bases")
	if err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, entry := range entries {
		definition, err := readDefinition(entry.Name())
		if err != nil {
			return nil, err
		}
		all = append(all, definition)
	}
	return all, nil
}

func readDefinition(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := definitions.ReadFile("crd/bases/" + file)
	if err != nil {
		return nil, err
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(content, definition); err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s: %w", file, err)
	}
	return definition, nil
}
