package render

import (
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Settings are what all installations of one manager have in common.
type Settings struct {
	// RuntimeImage runs collections that name no image of their own.
	RuntimeImage string
	// Architectures that RuntimeImage is built for, as Go names them.
	Architectures []string
	// ArtifactURL is where the runtime pods reach the manager's archives, without a trailing slash.
	ArtifactURL string
	// ArtifactServer is where ArtifactURL leads.
	ArtifactServer ArtifactServer
	// Dependencies say where those of collections come from that do not say it themselves.
	Dependencies DependencySettings
}

// DefaultSettings are those of a manager that config/default installs.
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
