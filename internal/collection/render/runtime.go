package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
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
