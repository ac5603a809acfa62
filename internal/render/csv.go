package render

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/go-digest"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
)

// targetNamespaces is the annotation in which OLM tells the pods of an operator where instances are: one namespace, as
// the install modes allow no more.
const targetNamespaces = "metadata.annotations['olm.targetNamespaces']"

// Labels by which consoles find out on which nodes an operator runs. One without them counts as being for amd64 alone.
const (
	labelArchitecture = "operatorframework.io/arch."
	labelLinux        = "operatorframework.io/os.linux"
)

// allArchitectures stand for an image that runs everywhere.
var allArchitectures = []string{"amd64", "arm64", "ppc64le", "s390x"}

// ClusterServiceVersionOptions are what a ClusterServiceVersion depends on besides the collection.
type ClusterServiceVersionOptions struct {
	// Group is the API group of the collection's kinds.
	Group string
	// Digest identifies the collection's archive.
	Digest digest.Digest
	// Image runs the collection.
	Image string
	// Architectures are the ones the image is built for, as Go names them. Empty means that it runs everywhere.
	Architectures []string
	// ServedVersions has the newest served version of each kind in Group that belongs to another collection: what a
	// variable of type kindReference may name.
	ServedVersions map[string]string
}

// PackageName is the name of the collection's package in a catalog.
func PackageName(c *collection.Collection) string { return c.OperatorName() }

// ClusterServiceVersion renders what the Operator Lifecycle Manager needs to show the collection to users and to run its
// operator in one namespace. The installation's ConfigMap and Secrets are not part of it, and its pods do not start
// without them. Texts of the collection are cut where they are too long for a catalog, see text and line. The error
// names what cannot be rendered.
func ClusterServiceVersion(c *collection.Collection, o ClusterServiceVersionOptions) (*operatorsv1alpha1.ClusterServiceVersion, error) {
	if o.Image == "" {
		return nil, errors.New("runtime: image is not set")
	}
	o.Architectures = slices.Compact(slices.Sorted(slices.Values(o.Architectures)))
	annotations, err := csvAnnotations(c, o)
	if err != nil {
		return nil, err
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{
			APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.ClusterServiceVersionKind,
		},
		ObjectMeta: metav1.ObjectMeta{Name: c.CSVName(), Labels: csvLabels(c, o), Annotations: annotations},
		Spec: operatorsv1alpha1.ClusterServiceVersionSpec{
			DisplayName:  line(firstOf(c.DisplayName, c.Name), maxName),
			Description:  csvDescription(c),
			Keywords:     keywords(c),
			Maintainers:  maintainers(c),
			Provider:     provider(c),
			Links:        links(c),
			Icon:         []operatorsv1alpha1.Icon{icon(c)},
			Maturity:     maturity(c),
			InstallModes: installModes(),
			CustomResourceDefinitions: operatorsv1alpha1.CustomResourceDefinitions{
				Owned: ownedKinds(c, o),
			},
			InstallStrategy: installStrategy(c, o),
			RelatedImages:   []operatorsv1alpha1.RelatedImage{{Name: OperatorContainer, Image: o.Image}},
		},
	}
	if err := csv.Spec.Version.UnmarshalJSON([]byte(strconv.Quote(c.Version.String()))); err != nil {
		return nil, fmt.Errorf("version %s: %w", c.Version, err)
	}
	return csv, nil
}

func csvLabels(c *collection.Collection, o ClusterServiceVersionOptions) map[string]string {
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

// installModes: an operator serves one namespace, as its endpoints and credentials are those of one.
func installModes() []operatorsv1alpha1.InstallMode {
	return []operatorsv1alpha1.InstallMode{
		{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace, Supported: true},
		{Type: operatorsv1alpha1.InstallModeTypeSingleNamespace, Supported: true},
		{Type: operatorsv1alpha1.InstallModeTypeMultiNamespace, Supported: false},
		{Type: operatorsv1alpha1.InstallModeTypeAllNamespaces, Supported: false},
	}
}

func installStrategy(c *collection.Collection, o ClusterServiceVersionOptions) operatorsv1alpha1.NamedInstallStrategy {
	details := operatorsv1alpha1.StrategyDetailsDeployment{
		DeploymentSpecs: []operatorsv1alpha1.StrategyDeploymentSpec{
			{Name: c.OperatorName(), Label: Labels(c), Spec: deploymentSpec(c, o.podOptions(c))},
		},
		Permissions: []operatorsv1alpha1.StrategyDeploymentPermissions{
			{ServiceAccountName: c.OperatorName(), Rules: append(BaseRules(c, o.Group), copyRules(c.Roles)...)},
		},
	}
	if len(c.ClusterRoles) > 0 {
		details.ClusterPermissions = []operatorsv1alpha1.StrategyDeploymentPermissions{
			{ServiceAccountName: c.OperatorName(), Rules: copyRules(c.ClusterRoles)},
		}
	}
	return operatorsv1alpha1.NamedInstallStrategy{
		StrategyName: operatorsv1alpha1.InstallStrategyNameDeployment, StrategySpec: details,
	}
}

// maxConcurrentReconciles is the variable by which a Subscription says how many playbooks of one kind run at once.
const maxConcurrentReconciles = "MAX_CONCURRENT_RECONCILES"

// podOptions are those of a pod that OLM makes, which is the same in all namespaces.
func (o ClusterServiceVersionOptions) podOptions(c *collection.Collection) podOptions {
	options := podOptions{
		runtime: v2beta2.RuntimeSpec{Image: o.Image}, architectures: o.Architectures,
		own: []corev1.EnvVar{
			{Name: watchNamespace, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: targetNamespaces},
			}},
			{Name: maxConcurrentReconciles, Value: concurrency(v2beta2.RuntimeSpec{})},
		},
		// A Subscription changes no arguments, but variables that they refer to.
		concurrent: "$(" + maxConcurrentReconciles + ")",
	}
	if needsDependencies(c) {
		options.credentials = dependencyCredentials(c)
		options.credentials.Optional = ptr.To(true)
	}
	return options
}
