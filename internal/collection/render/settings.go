package render

import (
	"errors"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Settings apply to all installations of one manager.
type Settings struct {
	// RuntimeImage is the default image.
	RuntimeImage string
	// Runtime has the defaults of all other fields.
	Runtime v2beta2.RuntimeSpec
	// Architectures of RuntimeImage, as Go names them.
	Architectures []string
	// ArtifactURL is the base URL of the manager's archives, without a trailing slash.
	ArtifactURL string
	// ArtifactTLSURL is the https URL of the same archives, or empty. Operators of earlier versions only know ArtifactURL.
	ArtifactTLSURL string
	// ArtifactAuthorities are the certificate authorities of ArtifactTLSURL, in PEM.
	ArtifactAuthorities string
	// ArtifactServer serves both URLs.
	ArtifactServer ArtifactServer
	// Dependencies specifies the default sources of dependencies.
	Dependencies DependencySettings
	// TrustedAuthorities are trusted by operators in addition to those of their image, in PEM.
	TrustedAuthorities string
	// Environment has the variables that operators get unless they set them: see [environment.ForOperators].
	Environment string
}

// DefaultSettings returns the settings of a manager that config/default installs.
func DefaultSettings() Settings {
	return Settings{
		RuntimeImage:   "collection-operator/runtime:v0.1.0",
		Architectures:  []string{"amd64", "arm64", "ppc64le", "s390x"},
		ArtifactURL:    "http://collection-operator-artifacts.collection-operator-system.svc",
		ArtifactTLSURL: "https://collection-operator-artifacts.collection-operator-system.svc",
		ArtifactServer: ArtifactServer{Namespace: "collection-operator-system", Port: 8443, HTTPPort: 8090},
	}
}

// SetArtifactURL sets the URLs for the manager's flag artifact-url. If that is an https URL, and ArtifactServer has an HTTPPort,
// operators of earlier versions use port 80 of the same host.
func (s *Settings) SetArtifactURL(text string) error {
	s.ArtifactURL, s.ArtifactTLSURL = strings.TrimSuffix(text, "/"), ""
	parsed, err := url.Parse(s.ArtifactURL)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return errors.New("--artifact-url must be an http or https URL")
	}
	if parsed.Scheme == "http" {
		return nil
	}
	s.ArtifactTLSURL = s.ArtifactURL
	if s.ArtifactServer.HTTPPort != 0 {
		parsed.Scheme, parsed.Host = "http", strings.TrimSuffix(parsed.Host, ":"+parsed.Port())
		s.ArtifactURL = parsed.String()
	}
	return nil
}

// Options are those of an installation that sets nothing of its own. The manager serves the archive with the digest
// under artifactPath.
func (s Settings) Options(namespace, group string, archive digest.Digest, artifactPath string) InstallationOptions {
	options := InstallationOptions{
		Namespace: namespace, Group: group, Digest: archive, ArtifactURL: s.ArtifactURL + artifactPath,
		ArtifactServer: s.ArtifactServer, ArtifactAuthorities: s.ArtifactAuthorities,
		Runtime:      MergeRuntime(&s.Runtime, &v2beta2.RuntimeSpec{Image: s.RuntimeImage}),
		Defaults:     s.Runtime,
		Dependencies: s.Dependencies, Architectures: s.Architectures,
		TrustedAuthorities: s.TrustedAuthorities, Environment: s.Environment,
	}
	if s.ArtifactTLSURL != "" {
		options.ArtifactTLSURL = s.ArtifactTLSURL + artifactPath
	}
	return options
}
