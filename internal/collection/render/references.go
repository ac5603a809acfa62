package render

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/environment"
)

// FieldEnv is the field of RuntimeSpec with variables of the environment.
const FieldEnv = "env"

// Reference is an object of the pod's namespace that RuntimeSpec names.
type Reference struct {
	// Field of RuntimeSpec, such as envFrom.
	Field string
	// Kind is Secret, ConfigMap or PersistentVolumeClaim.
	Kind, Name string
}

// References returns the objects that must have the label [v2beta2.LabelRuntime], sorted, each once.
func References(runtime *v2beta2.RuntimeSpec) []Reference {
	var found []Reference
	for _, secret := range runtime.ImagePullSecrets {
		found = append(found, Reference{"imagePullSecrets", "Secret", secret.Name})
	}
	for _, variable := range runtime.Env {
		found = append(found, envReferences(variable)...)
	}
	for _, source := range runtime.EnvFrom {
		if source.ConfigMapRef != nil {
			found = append(found, Reference{"envFrom", "ConfigMap", source.ConfigMapRef.Name})
		}
		if source.SecretRef != nil {
			found = append(found, Reference{"envFrom", "Secret", source.SecretRef.Name})
		}
	}
	for _, volume := range runtime.Volumes {
		switch {
		case volume.ConfigMap != nil:
			found = append(found, Reference{"volumes", "ConfigMap", volume.ConfigMap.Name})
		case volume.Secret != nil:
			found = append(found, Reference{"volumes", "Secret", volume.Secret.SecretName})
		case volume.PersistentVolumeClaim != nil:
			found = append(found, Reference{"volumes", "PersistentVolumeClaim", volume.PersistentVolumeClaim.ClaimName})
		}
	}
	slices.SortFunc(found, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Field, b.Field), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact(found)
}

// envReferences returns the objects that a variable of the pod's environment is read from.
func envReferences(variable corev1.EnvVar) []Reference {
	switch from := variable.ValueFrom; {
	case from == nil:
	case from.SecretKeyRef != nil:
		return []Reference{{FieldEnv, "Secret", from.SecretKeyRef.Name}}
	case from.ConfigMapKeyRef != nil:
		return []Reference{{FieldEnv, "ConfigMap", from.ConfigMapKeyRef.Name}}
	}
	return nil
}

// IsReadBy reports whether a container has, from the same keys, all variables that are to be read from the object that a Reference names.
func (r Reference) IsReadBy(container *corev1.Container, variables []corev1.EnvVar) bool {
	return !slices.ContainsFunc(variables, func(wanted corev1.EnvVar) bool {
		return slices.Contains(envReferences(wanted), r) && !slices.ContainsFunc(container.Env, func(has corev1.EnvVar) bool {
			return apiequality.Semantic.DeepEqual(has.ValueFrom, wanted.ValueFrom)
		})
	})
}

// CheckMounts returns an error if a mount names no volume of RuntimeSpec: it may come from another object than the volume.
func CheckMounts(runtime *v2beta2.RuntimeSpec) error {
	for _, mount := range runtime.VolumeMounts {
		if !slices.ContainsFunc(runtime.Volumes, func(v v2beta2.RuntimeVolume) bool { return v.Name == mount.Name }) {
			return fmt.Errorf("runtime.volumeMounts: %s mounts volume %q, which is not in runtime.volumes", mount.MountPath, mount.Name)
		}
	}
	return nil
}

func pullSecrets(runtime v2beta2.RuntimeSpec) []corev1.LocalObjectReference {
	var secrets []corev1.LocalObjectReference
	for _, secret := range runtime.ImagePullSecrets {
		secrets = append(secrets, corev1.LocalObjectReference{Name: secret.Name})
	}
	return secrets
}

func userVolumes(runtime v2beta2.RuntimeSpec) []corev1.Volume {
	var volumes []corev1.Volume
	for _, v := range runtime.Volumes {
		volumes = append(volumes, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{
			ConfigMap: v.ConfigMap, Secret: v.Secret, PersistentVolumeClaim: v.PersistentVolumeClaim, EmptyDir: v.EmptyDir,
		}})
	}
	return volumes
}

func userMounts(runtime v2beta2.RuntimeSpec) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	for _, m := range runtime.VolumeMounts {
		mounts = append(mounts, corev1.VolumeMount{Name: m.Name, MountPath: m.MountPath, SubPath: m.SubPath, ReadOnly: m.ReadOnly})
	}
	return mounts
}

// envFrom returns sources with a prefix that only the engine knows: it takes over the variables that are allowed. Kubernetes
// itself would let a key set any variable that the pod does not set.
func envFrom(runtime v2beta2.RuntimeSpec) []corev1.EnvFromSource {
	var sources []corev1.EnvFromSource
	for _, e := range runtime.EnvFrom {
		source := corev1.EnvFromSource{Prefix: environment.Prefix + e.Prefix}
		if e.ConfigMapRef != nil {
			source.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: e.ConfigMapRef.Name}}
		}
		if e.SecretRef != nil {
			source.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: e.SecretRef.Name}}
		}
		sources = append(sources, source)
	}
	return sources
}
