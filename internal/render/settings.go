package render

import (
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Settings apply to all installations of one manager.
type Settings struct {
	// RuntimeImage is the default image.
	RuntimeImage string
	// Architectures of RuntimeImage, as Go names them.
	Architectures []string
	// ArtifactURL is the base URL of the manager's archives, without a trailing slash.
	ArtifactURL string
	// ArtifactServer serves ArtifactURL.
	ArtifactServer ArtifactServer
	// Dependencies specifies the default sources of dependencies.
	Dependencies DependencySettings
}

// DefaultSettings returns the settings of a manager that config/default installs.
func DefaultSettings() Settings {
	return Settings{
		RuntimeImage:   "collection-operator/runtime:latest",
		Architectures:  []string{"amd64", "arm64", "ppc64le", "s390x"},
		ArtifactURL:    "http://collection-operator-artifacts.collection-operator-system.svc",
		ArtifactServer: ArtifactServer{Namespace: "collection-operator-system", Port: 8090},
	}
}

// Options are those of an installation that sets nothing of its own. The manager serves the archive with the digest
// under artifactPath.
func (s Settings) Options(namespace, group string, archive digest.Digest, artifactPath string) InstallationOptions {
	return InstallationOptions{
		Namespace: namespace, Group: group, Digest: archive, ArtifactURL: s.ArtifactURL + artifactPath,
		ArtifactServer: s.ArtifactServer,
		Runtime:        v2beta2.RuntimeSpec{Image: s.RuntimeImage},
		Dependencies:   s.Dependencies, Architectures: s.Architectures,
	}
}
