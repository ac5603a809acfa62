package crd

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Schema is the schema of one version of a kind, as the API server uses it. It may be used concurrently.
type Schema struct {
	// Structural is the schema without what only validation needs. It must not be changed.
	Structural *schema.Structural
	validator  validation.SchemaValidator
}

// NewSchema returns the schema of a version of a CRD. It fails if the CRD has no such version or its schema is not structural.
func NewSchema(definition *apiextensionsv1.CustomResourceDefinition, version string) (*Schema, error) {
	for i := range definition.Spec.Versions {
		v := &definition.Spec.Versions[i]
		if v.Name != version || v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		props := &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, props, nil); err != nil {
			return nil, fmt.Errorf("CRD %q: version %s: %w", definition.Name, version, err)
		}
		compiled, err := newSchema(props)
		if err != nil {
			return nil, fmt.Errorf("CRD %q: version %s: %w", definition.Name, version, err)
		}
		return compiled, nil
	}
	return nil, fmt.Errorf("CRD %q has no version %s with a schema", definition.Name, version)
}

func newSchema(props *apiextensions.JSONSchemaProps) (*Schema, error) {
	structural, err := schema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &Schema{Structural: structural, validator: validator}, nil
}

// Default sets the defaults of fields that an object does not have.
func (s *Schema) Default(object map[string]any) { defaulting.Default(object, s.Structural) }

// Create returns why the API server refuses to create an object, whose defaults are set.
func (s *Schema) Create(object map[string]any) field.ErrorList {
	return validation.ValidateCustomResource(nil, object, s.validator)
}

// Rules returns which rules (x-kubernetes-validations) an object breaks, whose defaults are set and which Create does not refuse.
// What rules say about changes is left out.
func (s *Schema) Rules(object map[string]any) field.ErrorList {
	validator := cel.NewValidator(s.Structural, true, celconfig.PerCallLimit)
	if validator == nil { // The schema has no rules.
		return nil
	}
	errs, _ := validator.Validate(context.Background(), nil, s.Structural, object, nil, celconfig.RuntimeCELCostBudget)
	return errs
}

// Update returns why the API server refuses to replace an object. What did not change is not held against it, as far as the API
// server can tell (CRD validation ratcheting).
func (s *Schema) Update(object, old map[string]any) field.ErrorList {
	correlated := common.NewCorrelatedObject(object, old, &model.Structural{Structural: s.Structural})
	return validation.ValidateCustomResourceUpdate(nil, object, old, s.validator, validation.WithRatcheting(correlated))
}
