package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/environment"
)

// MergeRuntime returns base with the fields that override sets. Environment variables, volumes and pull secrets are merged by name,
// mounts by path, annotations and labels by key, sources of variables by prefix and name, and reconcile periods by kind; modules that
// drift checks skip are added; all other fields are replaced. Either argument may be nil. The result shares no memory with them.
func MergeRuntime(base, override *v2beta2.RuntimeSpec) v2beta2.RuntimeSpec {
	var merged v2beta2.RuntimeSpec
	if base != nil {
		base.DeepCopyInto(&merged)
	}
	if override == nil {
		return merged
	}
	over := override.DeepCopy()
	merged.Image = cmp.Or(over.Image, merged.Image)
	merged.Resources = cmp.Or(over.Resources, merged.Resources)
	merged.Affinity = cmp.Or(over.Affinity, merged.Affinity)
	merged.MaxRetries = cmp.Or(over.MaxRetries, merged.MaxRetries)
	merged.RunTimeout = cmp.Or(over.RunTimeout, merged.RunTimeout)
	merged.TerminationSeconds = cmp.Or(over.TerminationSeconds, merged.TerminationSeconds)
	merged.MaxArtifacts = cmp.Or(over.MaxArtifacts, merged.MaxArtifacts)
	merged.ReconcilePeriod = cmp.Or(over.ReconcilePeriod, merged.ReconcilePeriod)
	merged.DriftCheckPeriod = cmp.Or(over.DriftCheckPeriod, merged.DriftCheckPeriod)
	merged.DriftCheckSkipModules = mergeBy(merged.DriftCheckSkipModules, over.DriftCheckSkipModules, func(m string) string { return m })
	merged.MaxConcurrentReconciles = cmp.Or(over.MaxConcurrentReconciles, merged.MaxConcurrentReconciles)
	merged.NetworkPolicy = cmp.Or(over.NetworkPolicy, merged.NetworkPolicy)
	if over.NodeSelector != nil {
		merged.NodeSelector = over.NodeSelector
	}
	if over.Tolerations != nil {
		merged.Tolerations = over.Tolerations
	}
	if len(over.RerunOn) > 0 {
		merged.RerunOn = over.RerunOn
	}
	merged.ReconcilePeriods = mergeBy(merged.ReconcilePeriods, over.ReconcilePeriods,
		func(p v2beta2.KindReconcilePeriod) string { return p.Kind })
	merged.Env = mergeEnv(merged.Env, over.Env)
	mergePod(&merged, over)
	return merged
}

// mergePod merges the fields of runtime that a pod takes over as they are.
func mergePod(merged, over *v2beta2.RuntimeSpec) {
	merged.PriorityClassName = cmp.Or(over.PriorityClassName, merged.PriorityClassName)
	if over.TopologySpreadConstraints != nil {
		merged.TopologySpreadConstraints = over.TopologySpreadConstraints
	}
	merged.EnvFrom = mergeBy(merged.EnvFrom, over.EnvFrom, envSourceKey)
	merged.ImagePullSecrets = mergeBy(merged.ImagePullSecrets, over.ImagePullSecrets, func(o v2beta2.RuntimeObject) string { return o.Name })
	merged.Volumes = mergeBy(merged.Volumes, over.Volumes, func(v v2beta2.RuntimeVolume) string { return v.Name })
	merged.VolumeMounts = mergeBy(merged.VolumeMounts, over.VolumeMounts, func(m v2beta2.RuntimeVolumeMount) string { return m.MountPath })
	merged.ServiceAccountAnnotations = mergeMaps(merged.ServiceAccountAnnotations, over.ServiceAccountAnnotations)
	merged.PodAnnotations = mergeMaps(merged.PodAnnotations, over.PodAnnotations)
	merged.PodLabels = mergeMaps(merged.PodLabels, over.PodLabels)
}

// mergeMaps changes base if it is not nil.
func mergeMaps(base, winners map[string]string) map[string]string {
	if base == nil {
		return winners
	}
	maps.Copy(base, winners)
	return base
}

func envSourceKey(e v2beta2.RuntimeEnvSource) string {
	return fmt.Sprintf("%s %s %s", e.Prefix, ptr.Deref(e.ConfigMapRef, v2beta2.RuntimeObject{}).Name, ptr.Deref(e.SecretRef, v2beta2.RuntimeObject{}).Name)
}

// mergeEnv merges variables by name.
func mergeEnv(base, winners []corev1.EnvVar) []corev1.EnvVar {
	return mergeBy(base, winners, func(e corev1.EnvVar) string { return e.Name })
}

// mergeBy returns base without the elements whose keys are in winners, followed by winners. The order is kept, since
// Kubernetes only expands $(NAME) of earlier environment variables.
func mergeBy[T any](base, winners []T, key func(T) string) []T {
	overridden := func(e T) bool {
		return slices.ContainsFunc(winners, func(w T) bool { return key(w) == key(e) })
	}
	return append(slices.DeleteFunc(slices.Clone(base), overridden), winners...)
}

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
