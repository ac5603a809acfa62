package render

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// targetNamespaces is the field path of the annotation in which OLM sets the target namespaces of an operator: one
// namespace, since the install modes do not allow more.
const targetNamespaces = "metadata.annotations['olm.targetNamespaces']"

// Labels for the platforms of an operator. Consoles assume amd64 only if they are missing.
const (
	labelArchitecture = "operatorframework.io/arch."
	labelLinux        = "operatorframework.io/os.linux"
)

// MinKubeVersion is the oldest version of Kubernetes that is supported. `make test-oldest` runs specs against it.
const MinKubeVersion = "1.31.0"

// allArchitectures are the architectures of an image without a restriction.
var allArchitectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// PackageName returns the name of the collection's package in a catalog.
func PackageName(c *model.Collection) string { return c.OperatorName() }

// ClusterServiceVersion renders the object with which the Operator Lifecycle Manager shows the collection to users and runs
// its operator in one namespace. The installation's ConfigMap and Secrets are not part of it: its pods wait for them. Texts that are
// too long for a catalog are truncated. The error names what cannot be rendered.
func ClusterServiceVersion(c *model.Collection, o ClusterServiceVersionOptions) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	if o.Runtime.Image == "" {
		return nil, errors.New("runtime: image is not set")
	}
	if err := c.CheckCSVName(); err != nil {
		return nil, err
	}
	o.Architectures = slices.Compact(slices.Sorted(slices.Values(o.Architectures)))
	annotations, err := csvAnnotations(c, o)
	if err != nil {
		return nil, err
	}
	strategy, err := installStrategy(c, o)
	if err != nil {
		return nil, err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{
			APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.ClusterServiceVersionKind,
		},
		ObjectMeta: metav1.ObjectMeta{Name: c.CSVName(), Labels: csvLabels(c, o), Annotations: annotations},
		Spec: operatorsv1alpha1.ClusterServiceVersionSpec{
			DisplayName:    line(firstOf(c.DisplayName, c.Name), maxName),
			Description:    csvDescription(c),
			Keywords:       keywords(c),
			Maintainers:    maintainers(c),
			Provider:       provider(c),
			Links:          links(c),
			Icon:           []operatorsv1alpha1.Icon{icon(c)},
			Maturity:       maturity(c),
			MinKubeVersion: MinKubeVersion,
			InstallModes:   installModes(),
			// Tools find what belongs to the operator by the identity of its collection.
			Labels:   IdentityLabels(c.ID()),
			Selector: &metav1.LabelSelector{MatchLabels: IdentityLabels(c.ID())},
			CustomResourceDefinitions: operatorsv1alpha1.CustomResourceDefinitions{
				Owned: ownedKinds(c, o),
			},
			InstallStrategy: strategy,
			RelatedImages:   []operatorsv1alpha1.RelatedImage{{Name: OperatorContainer, Image: o.Runtime.Image}},
		},
	}
	if err := csv.Spec.Version.UnmarshalJSON([]byte(strconv.Quote(c.Version.String()))); err != nil {
		return nil, fmt.Errorf("version %s: %w", c.Version, err)
	}
	return csv, nil
}

func csvLabels(c *model.Collection, o ClusterServiceVersionOptions) map[string]string {
	labels := Labels(c)
	labels[labelLinux] = "supported"
	architectures := o.Architectures
	if len(architectures) == 0 {
		architectures = allArchitectures
	}
	for _, architecture := range architectures {
		labels[labelArchitecture+architecture] = "supported"
	}
	return labels
}

// installModes returns the supported install modes: only OwnNamespace, since endpoints and credentials belong to one
// namespace.
func installModes() []operatorsv1alpha1.InstallMode {
	return []operatorsv1alpha1.InstallMode{
		{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace, Supported: true},
		{Type: operatorsv1alpha1.InstallModeTypeSingleNamespace, Supported: true},
		{Type: operatorsv1alpha1.InstallModeTypeMultiNamespace, Supported: false},
		{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: false},
	}
}

// installStrategy returns Deployment and permissions. The hash of the default configuration is part of the pods, so that OLM, which
// creates them before it reads a Subscription's config, does not have to replace them.
func installStrategy(c *model.Collection, o ClusterServiceVersionOptions) (operatorsv1alpha1.NamedInstallStrategy, error) {
	config, err := configMap(c, o.InstallationOptions)
	if err != nil {
		return operatorsv1alpha1.NamedInstallStrategy{}, err
	}
	spec := deploymentSpec(c, o.podOptions(c))
	spec.Template.Annotations[CatalogHashAnnotation] = runtimeHash(config.Data, nil)
	// OLM replaces pods that do not become ready every five minutes, and with them their configuration, but not those of a
	// Deployment that has exceeded its deadline. This value means none.
	spec.ProgressDeadlineSeconds = ptr.To[int32](math.MaxInt32)
	details := operatorsv1alpha1.StrategyDetailsDeployment{
		DeploymentSpecs: []operatorsv1alpha1.StrategyDeploymentSpec{
			{Name: c.OperatorName(), Label: Labels(c), Spec: spec},
		},
		Permissions: []operatorsv1alpha1.StrategyDeploymentPermissions{
			{ServiceAccountName: c.OperatorName(), Rules: append(BaseRules(c, o.Group, false), copyRules(c.Roles)...)},
		},
	}
	if len(c.ClusterRoles) > 0 {
		details.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{
			{ServiceAccountName: c.OperatorName(), Rules: copyRules(c.ClusterRoles)},
		}
	}
	return operatorsv1alpha1.NamedInstallStrategy{
		StrategyName: operatorsv1alpha1.InstallStrategyNameDeployment, StrategySpec: details,
	}, nil
}

// maxConcurrentReconciles is the variable with which a Subscription limits concurrent playbooks of one kind.
const maxConcurrentReconciles = "MAX_CONCURRENT_RECONCILES"

// podOptions returns the options of a pod that OLM creates, which are the same in all namespaces.
func (o ClusterServiceVersionOptions) podOptions(c *model.Collection) podOptions {
	options := podOptions{
		runtime: v2beta2.RuntimeSpec{Image: o.Runtime.Image}, architectures: o.Architectures,
		own: []corev1.EnvVar{
			fieldEnv(watchNamespace, targetNamespaces),
			{Name: maxConcurrentReconciles, Value: concurrency(v2beta2.RuntimeSpec{})},
		},
		// A Subscription cannot change arguments, but variables in them.
		concurrent: "$(" + maxConcurrentReconciles + ")",
	}
	if needsDependencies(c) {
		options.credentials = dependencyCredentials(c)
		options.credentials.Optional = ptr.To(true)
	}
	return options
}
