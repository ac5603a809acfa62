package render

import (
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/environment"
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

// ArtifactServer identifies the manager's archive server for network policies.
type ArtifactServer struct {
	// Namespace of the manager's pod.
	Namespace string
	// Port of that pod, which may differ from the port of its Service.
	Port int32
	// HTTPPort is the port for operators that do not know the TLS URL, or zero.
	HTTPPort int32
}

// DependencySettings specifies where the dependencies of a collection are downloaded from.
type DependencySettings struct {
	// GalaxyURL is the Galaxy server for collections without a source of their own, and PipIndexURL the index of Python
	// packages. If empty, the configuration of the runtime image applies.
	GalaxyURL, PipIndexURL string
	// Credentials by key, see DependencyKeys. Empty means none.
	Credentials map[string][]byte
}

// ClusterServiceVersionOptions is the input of ClusterServiceVersion in addition to the collection.
type ClusterServiceVersionOptions struct {
	// InstallationOptions are those of a namespace that sets nothing of its own, see [Settings.Options]. The namespace itself is
	// not used.
	InstallationOptions
	// ServedKinds has the group and the newest served version of each kind that belongs to another collection, for variables with a
	// kindReference.
	ServedKinds map[string]schema.GroupVersion
}

// Keys of the runtime ConfigMap, in addition to gate.SettingsFile: files that the init container and ansible-operator read.
const (
	KeyDigest      = "digest"
	KeyArtifactURL = "artifactURL"
	// KeyArtifactTLSURL replaces KeyArtifactURL in operators that know it.
	KeyArtifactTLSURL = "artifactTLSURL"
	// KeyArtifactAuthorities has the certificate authorities for KeyArtifactTLSURL, in PEM.
	KeyArtifactAuthorities = "ca.crt"

	KeyGalaxyNamespace = "galaxyNamespace"
	KeyGalaxyName      = "galaxyName"
	KeyWatches         = "watches.yaml"
)

// unhashed are keys whose changes start no pods.
var unhashed = []string{KeyArtifactTLSURL, KeyArtifactAuthorities, environment.KeyAuthorities, environment.KeyVariables}
