package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func configMap(c *model.Collection, o InstallationOptions) (*corev1.ConfigMap, error) {
	watches, err := watchesYAML(c, o)
	if err != nil {
		return nil, err
	}
	runs, err := runsJSON(c, o)
	if err != nil {
		return nil, err
	}
	data := map[string]string{
		KeyDigest:          o.Digest.String(),
		KeyArtifactURL:     o.ArtifactURL,
		KeyGalaxyNamespace: c.Galaxy.Namespace,
		KeyGalaxyName:      c.Galaxy.Name,
		KeyWatches:         watches,
		gate.SettingsFile:  runs,
	}
	if o.ArtifactTLSURL != "" {
		data[KeyArtifactTLSURL], data[KeyArtifactAuthorities] = o.ArtifactTLSURL, o.ArtifactAuthorities
	}
	if o.TrustedAuthorities != "" {
		data[environment.KeyAuthorities] = o.TrustedAuthorities
	}
	if o.Environment != "" {
		data[environment.KeyVariables] = o.Environment
	}
	if needsDependencies(c) {
		if data[KeyDependencies], err = dependenciesJSON(c, o.Dependencies); err != nil {
			return nil, err
		}
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta(c, o.Namespace, ConfigMapName(c)),
		Data:       data,
	}, nil
}

// runtimeHash returns a hash of the data of the runtime ConfigMap, and of what a Subscription sets for the pods, if anything, as
// 16 hexadecimal digits. Where a new pod finds its archive, and whom it trusts for that, is not part of it: a pod that runs has
// its archive. Neither is what each run takes over.
func runtimeHash(data map[string]string, config []byte) string {
	hash := sha256.New()
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if slices.Contains(unhashed, key) {
			continue
		}
		fmt.Fprintf(hash, "%d:%s=%d:%s;", len(key), key, len(data[key]), data[key])
	}
	hash.Write(config)
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// RuntimeHash returns the hash of the configuration that pods with these annotations run, or "" if they have none.
func RuntimeHash(annotations map[string]string) string {
	return cmp.Or(annotations[RuntimeHashAnnotation], annotations[CatalogHashAnnotation])
}
