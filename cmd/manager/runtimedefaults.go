package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// runtimeDefaults is spec.runtime for collections that do not set it, in YAML.
type runtimeDefaults struct {
	text string
}

func (d *runtimeDefaults) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&d.text, "runtime-defaults", "", "fields of spec.runtime, in YAML or JSON, for OperatorCollections and SubOperatorConfigs that do not set them; the image has a flag of its own")
}

// apply sets the defaults. They are judged as the API server judges spec.runtime: otherwise no operator could be installed.
func (d *runtimeDefaults) apply(to *render.Settings) error {
	var defaults v2beta2.RuntimeSpec
	if err := yaml.UnmarshalStrict([]byte(d.text), &defaults); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	if defaults.Image != "" {
		return errors.New("--runtime-defaults: image is set by --runtime-image")
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	if err := render.CheckMounts(&defaults); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	to.Runtime = defaults
	return nil
}

// check returns what the API server would refuse in a SubOperatorConfig.
func (d *runtimeDefaults) check() error {
	if d.text == "" {
		return nil
	}
	text, err := yaml.YAMLToJSON([]byte(d.text))
	if err != nil {
		return err
	}
	var runtime map[string]any
	if err := utiljson.Unmarshal(text, &runtime); err != nil { // Integers as the API server has them.
		return err
	}
	definition, err := config.SubOperatorConfigs()
	if err != nil {
		return err
	}
	schema, err := crd.NewSchema(definition, v2beta2.GroupVersion.Version)
	if err != nil {
		return err
	}
	object := map[string]any{
		"apiVersion": v2beta2.GroupVersion.String(), "kind": definition.Spec.Names.Kind, "metadata": map[string]any{"name": "defaults"},
		"spec": map[string]any{"operatorCollection": "defaults", "runtime": runtime},
	}
	schema.Default(object)
	if errs := schema.Create(object); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return schema.Rules(object).ToAggregate()
}
