package render

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// MergeRuntime returns base with the fields that override sets. Environment variables are merged by name and reconcile
// periods by kind; all other fields are replaced. Either argument may be nil. The result shares no memory with them.
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
	return merged
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
