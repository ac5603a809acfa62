package render

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

const (
	// DependenciesContainer is the name of the init container that installs the collection's dependencies.
	DependenciesContainer = InitPrefix + "dependencies"

	// KeyDependencies is the key of the runtime ConfigMap with the dependencies to install.
	KeyDependencies = "dependencies.json"

	// DependencyMissing is the prefix of the termination message of a container that could not install all dependencies.
	DependencyMissing = "DependencyMissing: "

	dependenciesDir       = "/opt/ansible/dependencies"
	dependencySecretDir   = "/etc/zoscb/dependencies"
	dependenciesVolume    = "dependencies"
	dependencySecretMount = "dependency-credentials"
)

// Keys of the Secret with the credentials for dependencies. All are optional.
const (
	// KeyGalaxyToken, or KeyGalaxyUsername with KeyGalaxyPassword, is only sent to DependencySettings.GalaxyURL.
	// KeyGalaxyAuthURL is the URL at which a token must be exchanged first, as for Automation Hub.
	KeyGalaxyToken    = "galaxyToken"
	KeyGalaxyUsername = "galaxyUsername"
	KeyGalaxyPassword = "galaxyPassword"
	KeyGalaxyAuthURL  = "galaxyAuthURL"
	// KeyPipUsername and KeyPipPassword are only sent to the host of DependencySettings.PipIndexURL.
	KeyPipUsername = "pipUsername"
	KeyPipPassword = "pipPassword"
	// KeyCA has PEM certificates that are trusted in addition to those of the image.
	KeyCA = "ca.crt"
)

// DependencyKeys lists the keys that DependencySettings.Credentials may have.
var DependencyKeys = []string{
	KeyGalaxyToken, KeyGalaxyUsername, KeyGalaxyPassword, KeyGalaxyAuthURL, KeyPipUsername, KeyPipPassword, KeyCA,
}

// dependencyPlan is the input file of the engine's program "dependencies".
type dependencyPlan struct {
	Collection      string               `json:"collection"`
	Version         string               `json:"version"`
	RequiresAnsible string               `json:"requiresAnsible,omitempty"`
	GalaxyURL       string               `json:"galaxyURL,omitempty"`
	PipIndexURL     string               `json:"pipIndexURL,omitempty"`
	Collections     []plannedCollection  `json:"collections,omitempty"`
	Python          []plannedPythonFiles `json:"python,omitempty"`
}

type plannedCollection struct {
	Name    string                `json:"name"`
	Type    model.RequirementType `json:"type"`
	Version string                `json:"version,omitempty"`
	Source  string                `json:"source,omitempty"`
	File    string                `json:"file"`
}

type plannedPythonFiles struct {
	File         string   `json:"file"`
	Options      []string `json:"options,omitempty"`
	Requirements []string `json:"requirements"`
}

// needsDependencies reports whether dependencies must be installed or checked before the operator starts.
func needsDependencies(c *model.Collection) bool {
	return !c.Dependencies.Empty() || c.Galaxy.RequiresAnsible != ""
}

func dependenciesJSON(c *model.Collection, s DependencySettings) (string, error) {
	plan := dependencyPlan{
		Collection: c.Galaxy.Namespace + "." + c.Galaxy.Name, Version: c.Galaxy.Version,
		RequiresAnsible: c.Galaxy.RequiresAnsible, GalaxyURL: s.GalaxyURL, PipIndexURL: s.PipIndexURL,
	}
	for _, r := range c.Dependencies.Collections {
		plan.Collections = append(plan.Collections, plannedCollection(r))
	}
	for _, p := range c.Dependencies.Python {
		plan.Python = append(plan.Python, plannedPythonFiles(p))
	}
	text, err := JSON(plan, "  ")
	if err != nil {
		return "", fmt.Errorf("dependencies: %w", err)
	}
	return string(text) + "\n", nil
}

// DependenciesSecretName returns the name of the Secret with the credentials for dependencies.
func DependenciesSecretName(c *model.Collection) string {
	return c.OperatorName() + endpoint.SuffixDependencies
}

// usesDependencySecret reports whether the installation has that Secret.
func usesDependencySecret(c *model.Collection, o InstallationOptions) bool {
	return needsDependencies(c) && len(o.Dependencies.Credentials) > 0
}

func dependenciesSecret(c *model.Collection, o InstallationOptions) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(c, o.Namespace, DependenciesSecretName(c)),
		Type:       corev1.SecretTypeOpaque,
		Data:       maps.Clone(o.Dependencies.Credentials),
	}
}

func dependencyCredentials(c *model.Collection) *corev1.SecretVolumeSource {
	return &corev1.SecretVolumeSource{SecretName: DependenciesSecretName(c), DefaultMode: ptr.To[int32](0o440)}
}

func dependenciesContainer(c *model.Collection, o podOptions) corev1.Container {
	container := baseContainer(DependenciesContainer, o)
	container.Command = []string{"/opt/ansible/engine/dependencies"}
	container.Args = []string{"install"}
	container.Env = o.runtime.Env // Includes proxy settings.
	container.EnvFrom = envFrom(o.runtime)
	container.Resources = resources("50m", "128Mi", "1", "1Gi")
	container.VolumeMounts = slices.Concat(container.VolumeMounts, dependencyMounts(c, o), userMounts(o.runtime))
	return container
}

// dependencyMounts returns the mounts of the init container and of the operator container, which retries the installation.
func dependencyMounts(c *model.Collection, o podOptions) []corev1.VolumeMount {
	if !needsDependencies(c) {
		return nil
	}
	mounts := []corev1.VolumeMount{{Name: dependenciesVolume, MountPath: dependenciesDir}}
	if o.credentials != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: dependencySecretMount, MountPath: dependencySecretDir, ReadOnly: true})
	}
	return mounts
}

func dependencyVolumes(c *model.Collection, o podOptions) []corev1.Volume {
	if !needsDependencies(c) {
		return nil
	}
	added := []corev1.Volume{emptyDir(dependenciesVolume, "2Gi")}
	if o.credentials != nil {
		added = append(added, corev1.Volume{Name: dependencySecretMount, VolumeSource: corev1.VolumeSource{
			Secret: o.credentials,
		}})
	}
	return added
}
