package render

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// InstallationOptions is the input of Installation in addition to the collection.
type InstallationOptions struct {
	// Namespace in which the operator runs and manages custom resources.
	Namespace string
	// Group is the API group of the collection's kinds.
	Group string
	// Digest identifies the collection's archive. The pod runs nothing else.
	Digest digest.Digest
	// ArtifactURL is where the pod downloads the archive.
	ArtifactURL string
	// ArtifactTLSURL is where the pod downloads the archive with TLS, instead of ArtifactURL, or empty.
	ArtifactTLSURL string
	// ArtifactAuthorities are the only certificate authorities that the pod trusts for ArtifactTLSURL, in PEM.
	ArtifactAuthorities string
	// ArtifactServer serves both URLs. It is only used if Runtime restricts egress.
	ArtifactServer ArtifactServer
	// Runtime configures the Deployment. Image must be set.
	Runtime v2beta2.RuntimeSpec
	// Defaults are those of [Settings] that are part of Runtime. They are not refused with a Subscription that cannot pass them on.
	Defaults v2beta2.RuntimeSpec
	// Endpoints to allow if Runtime restricts egress.
	Endpoints []Endpoint
	// PersonalCredentials is true if resources name the Secrets with which their runs log on.
	PersonalCredentials bool
	// Dependencies specifies where the collection's dependencies are downloaded from.
	Dependencies DependencySettings
	// Architectures of the image, as Go names them. Empty means all.
	Architectures []string
	// TrustedAuthorities and Environment are those of [Settings]. A change starts no pods: the next run follows it.
	TrustedAuthorities, Environment string
}

// Installation renders the operator of a collection for one namespace, in the order in which the objects must be applied.
// The Secret with the endpoints, without which the pod does not start, is rendered by EndpointsSecret. The error names what
// cannot be rendered.
func Installation(c *model.Collection, o InstallationOptions) ([]Object, error) {
	if err := CheckMounts(&o.Runtime); err != nil {
		return nil, err
	}
	o.Architectures = slices.Compact(slices.Sorted(slices.Values(o.Architectures)))
	config, err := configMap(c, o)
	if err != nil {
		return nil, err
	}
	operator, err := deployment(c, o, config)
	if err != nil {
		return nil, err
	}
	objects := []Object{serviceAccount(c, o), role(c, o), roleBinding(c, o)}
	if len(c.ClusterRoles) > 0 {
		objects = append(objects, clusterRole(c, o), clusterRoleBinding(c, o))
	}
	if usesDependencySecret(c, o) {
		objects = append(objects, dependenciesSecret(c, o))
	}
	return append(objects, networkPolicy(c, o), config, operator), nil
}

// ConfigMapSuffix is the end of the name of each runtime ConfigMap.
const ConfigMapSuffix = "-runtime"

// ConfigMapName returns the name of the runtime ConfigMap.
func ConfigMapName(c *model.Collection) string { return c.OperatorName() + ConfigMapSuffix }

// EndpointsSecretName returns the name of the Secret that EndpointsSecret renders.
func EndpointsSecretName(c *model.Collection) string { return EndpointsSecretNameOf(c.ID()) }

// EndpointsSecretNameOf is EndpointsSecretName of a collection in any version.
func EndpointsSecretNameOf(id model.ID) string {
	return id.OperatorName() + endpoint.SuffixEndpoints
}

const clusterRolePrefix = "zoscb:"

// ClusterRoleName returns the name of the ClusterRole and ClusterRoleBinding of the installation in a namespace. It is
// unique, since neither namespaces nor operator names contain a colon.
func ClusterRoleName(c *model.Collection, namespace string) string {
	return clusterRolePrefix + namespace + ":" + c.OperatorName()
}

func objectMeta(c *model.Collection, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: Labels(c)}
}

func sortedPlurals(c *model.Collection, suffix string) []string {
	plurals := make([]string, 0, len(c.Resources))
	for _, r := range c.Resources {
		plurals = append(plurals, r.Plural()+suffix)
	}
	slices.Sort(plurals)
	return plurals
}

// ClusterRoleNamespace returns the namespace of the installation with this ClusterRoleName, or "".
func ClusterRoleNamespace(name string) string {
	rest, ok := strings.CutPrefix(name, clusterRolePrefix)
	if !ok {
		return ""
	}
	namespace, _, _ := strings.Cut(rest, ":")
	return namespace
}
