// Package catalog makes a file-based catalog of collections for the Operator Lifecycle Manager, and serves it.
package catalog

import (
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
)

// Bundle is one version of one collection.
type Bundle struct {
	// Package is the name of its package.
	Package string
	// ClusterServiceVersion installs it.
	ClusterServiceVersion *operatorsv1alpha1.ClusterServiceVersion
}

// Build makes the catalog of the bundles.
func Build(_ []Bundle) (*declcfg.DeclarativeConfig, error) {
	return &declcfg.DeclarativeConfig{}, nil
}
