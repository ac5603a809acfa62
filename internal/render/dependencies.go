package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/collection"
)

const (
	// DependenciesContainer is the name of the init container that installs what the collection needs.
	DependenciesContainer = "dependencies"

	// KeyDependencies is the key of the runtime ConfigMap that tells this container what to do.
	KeyDependencies = "dependencies.json"

	// DependencyMissing begins the termination message of a container that could not install everything.
	DependencyMissing = "DependencyMissing: "

	dependenciesDir       = "/opt/ansible/dependencies"
	dependencySecretDir   = "/etc/zoscb/dependencies"
	dependenciesVolume    = "dependencies"
	dependencySecretMount = "dependency-credentials"
)

// Keys of the Secret with the credentials for dependencies. All are optional.
const (
	// KeyGalaxyToken, or KeyGalaxyUsername with KeyGalaxyPassword, is sent to DependencySettings.GalaxyURL alone.
	// KeyGalaxyAuthURL is where a token has to be exchanged first, as with Automation Hub.
	KeyGalaxyToken    = "galaxyToken"
	KeyGalaxyUsername = "galaxyUsername"
	KeyGalaxyPassword = "galaxyPassword"
	KeyGalaxyAuthURL  = "galaxyAuthURL"
	// KeyPipUsername and KeyPipPassword are sent to the host of DependencySettings.PipIndexURL alone.
	KeyPipUsername = "pipUsername"
	KeyPipPassword = "pipPassword"
	// KeyCA holds certificates in PEM that are trusted beside those of the image.
	KeyCA = "ca.crt"
)

// DependencyKeys are all keys that DependencySettings.Credentials may have.
var DependencyKeys = []string{
	KeyGalaxyToken, KeyGalaxyUsername, KeyGalaxyPassword, KeyGalaxyAuthURL, KeyPipUsername, KeyPipPassword, KeyCA,
}

// DependencySettings say where an installation gets what its collection needs.
type DependencySettings struct {
	// GalaxyURL is the Galaxy server that is asked for collections whose author names none, and PipIndexURL the index of
	// Python packages. Empty means what the runtime image is configured for.
	GalaxyURL, PipIndexURL string
	// Credentials by key, see DependencyKeys. Empty means none.
	Credentials map[string][]byte
}

// dependencyPlan is the file that the engine's program "dependencies" reads.
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
	Name    string `json:"name"`
	Type    string `json:"type"`
	Version string `json:"version,omitempty"`
	Source  string `json:"source,omitempty"`
	File    string `json:"file"`
}

type plannedPythonFiles struct {
	File         string   `json:"file"`
	Options      []string `json:"options,omitempty"`
	Requirements []string `json:"requirements"`
}

// needsDependencies says whether there is something to install or to check before the operator starts.
func needsDependencies(c *collection.Collection) bool {
	return !c.Dependencies.Empty() || c.Galaxy.RequiresAnsible != ""
}

func dependenciesJSON(c *collection.Collection, s DependencySettings) (string, error) {
	plan := dependencyPlan{
		Collection: c.Galaxy.Namespace + "." + c.Galaxy.Name, Version: c.Galaxy.Version,
		RequiresAnsible: c.Galaxy.RequiresAnsible, GalaxyURL: s.GalaxyURL, PipIndexURL: s.PipIndexURL,
	}
	for _, r := range c.Dependencies.Collections {
		plan.Collections = append(plan.Collections, plannedCollection{
			Name: r.Name, Type: string(r.Type), Version: r.Version, Source: r.Source, File: r.File,
		})
	}
	for _, p := range c.Dependencies.Python {
		plan.Python = append(plan.Python, plannedPythonFiles(p))
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(plan); err != nil {
		return "", fmt.Errorf("dependencies: %w", err)
	}
	return text.String(), nil
}

// DependenciesSecretName is the name of the Secret with the credentials for dependencies.
func DependenciesSecretName(c *collection.Collection) string {
	return c.OperatorName() + "-dependencies"
}

// usesDependencySecret says whether the installation has that Secret.
func usesDependencySecret(c *collection.Collection, o InstallationOptions) bool {
	return needsDependencies(c) && len(o.Dependencies.Credentials) > 0
}

func dependenciesSecret(c *collection.Collection, o InstallationOptions) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(c, o.Namespace, DependenciesSecretName(c)),
		Type:       corev1.SecretTypeOpaque,
		Data:       maps.Clone(o.Dependencies.Credentials),
	}
}

func dependencyCredentials(c *collection.Collection) *corev1.SecretVolumeSource {
	return &corev1.SecretVolumeSource{SecretName: DependenciesSecretName(c), DefaultMode: ptr.To[int32](0o440)}
}

func dependenciesContainer(c *collection.Collection, o podOptions) corev1.Container {
	return corev1.Container{
		Name:            DependenciesContainer,
		Image:           o.runtime.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/opt/ansible/engine/dependencies"},
		Args:            []string{"install"},
		// Proxy settings among them.
		Env:             o.runtime.Env,
		Resources:       resources("50m", "128Mi", "1", "1Gi"),
		SecurityContext: restricted(),
		VolumeMounts: append([]corev1.VolumeMount{
			{Name: "runtime", MountPath: "/etc/zoscb/runtime", ReadOnly: true},
			{Name: "content", MountPath: contentDir},
			{Name: "collections", MountPath: "/opt/ansible/collections"},
			{Name: "tmp", MountPath: "/tmp"},
		}, dependencyMounts(c, o)...),
	}
}

// dependencyMounts are those of the init container and, where it could not install everything, of the operator's
// container, which tries again.
func dependencyMounts(c *collection.Collection, o podOptions) []corev1.VolumeMount {
	if !needsDependencies(c) {
		return nil
	}
	mounts := []corev1.VolumeMount{{Name: dependenciesVolume, MountPath: dependenciesDir}}
	if o.credentials != nil {
		mounts = append(mounts, corev1.VolumeMount{Name: dependencySecretMount, MountPath: dependencySecretDir, ReadOnly: true})
	}
	return mounts
}

func dependencyVolumes(c *collection.Collection, o podOptions) []corev1.Volume {
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
