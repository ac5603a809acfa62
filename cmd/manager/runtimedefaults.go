package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
)

// runtimeDefaults is spec.runtime for collections that do not set it, in YAML.
type runtimeDefaults struct {
	text string
}

func (d *runtimeDefaults) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&d.text, "runtime-defaults", "", "fields of spec.runtime, in YAML or JSON, for OperatorCollections and SubOperatorConfigs that do not set them; the image has a flag of its own")
}

// apply sets the defaults. The API server does not judge them as it judges spec.runtime, but what is not a field is an error.
func (d *runtimeDefaults) apply(to *render.Settings) error {
	var defaults v2beta2.RuntimeSpec
	if err := yaml.UnmarshalStrict([]byte(d.text), &defaults); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	if defaults.Image != "" {
		return errors.New("--runtime-defaults: image is set by --runtime-image")
	}
	if err := render.CheckMounts(&defaults); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	to.Runtime = defaults
	return nil
}
