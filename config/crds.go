package config

import (
	_ "embed"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crd/bases/zoscb.ibm.com_suboperatorconfigs.yaml
var subOperatorConfigs []byte

// SubOperatorConfigs returns the CustomResourceDefinition of SubOperatorConfigs, whose rules say what spec.runtime may have.
func SubOperatorConfigs() (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(subOperatorConfigs, definition); err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition of SubOperatorConfigs: %w", err)
	}
	return definition, nil
}
