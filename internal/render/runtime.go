package render

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// MergeRuntime returns base with the fields that override sets. Environment variables are merged by name; all other fields
// are replaced. Either argument may be nil. The result shares no memory with them.
func MergeRuntime(base, override *v2beta2.RuntimeSpec) v2beta2.RuntimeSpec {
	var merged v2beta2.RuntimeSpec
	if base != nil {
		base.DeepCopyInto(&merged)
	}
	if override == nil {
		return merged
	}
	over := override.DeepCopy()
	if over.Image != "" {
		merged.Image = over.Image
	}
	if over.Resources != nil {
		merged.Resources = over.Resources
	}
	if over.NodeSelector != nil {
		merged.NodeSelector = maps.Clone(over.NodeSelector)
	}
	if over.Tolerations != nil {
		merged.Tolerations = over.Tolerations
	}
	if over.Affinity != nil {
		merged.Affinity = over.Affinity
	}
	if over.ReconcilePeriod != nil {
		merged.ReconcilePeriod = over.ReconcilePeriod
	}
	if over.MaxConcurrentReconciles != nil {
		merged.MaxConcurrentReconciles = over.MaxConcurrentReconciles
	}
	if over.NetworkPolicy != nil {
		merged.NetworkPolicy = over.NetworkPolicy
	}
	merged.Env = mergeEnv(merged.Env, over.Env)
	return merged
}

// mergeEnv returns base without the variables in winners, followed by winners. The order is kept, since Kubernetes only
// expands $(NAME) of earlier variables.
func mergeEnv(base, winners []corev1.EnvVar) []corev1.EnvVar {
	overridden := func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(winners, func(w corev1.EnvVar) bool { return w.Name == e.Name })
	}
	return append(slices.DeleteFunc(slices.Clone(base), overridden), winners...)
}
