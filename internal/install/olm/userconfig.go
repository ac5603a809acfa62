package olm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// configWarnings warns if a user-managed Subscription does not have what runtime sets for the pods: only its user changes it.
func (s *state) configWarnings(wanted *operatorsv1alpha1.SubscriptionConfig) []string {
	live := cmp.Or(s.subscription.Spec.Config, &operatorsv1alpha1.SubscriptionConfig{})
	var missing []string
	for _, field := range []struct {
		name    string
		carried bool
	}{
		{"affinity", wanted.Affinity == nil || equality.Semantic.DeepEqual(live.Affinity, wanted.Affinity)},
		{"env", carriesAll(live.Env, wanted.Env)},
		{"envFrom", carriesAll(live.EnvFrom, wanted.EnvFrom)},
		{"nodeSelector", carriesKeys(live.NodeSelector, wanted.NodeSelector)},
		{"podAnnotations", carriesKeys(live.Annotations, wanted.Annotations)},
		{"resources", wanted.Resources == nil || equality.Semantic.DeepEqual(live.Resources, wanted.Resources)},
		{"tolerations", carriesAll(live.Tolerations, wanted.Tolerations)},
		{"volumeMounts", carriesAll(live.VolumeMounts, wanted.VolumeMounts)},
		{"volumes", carriesAll(live.Volumes, wanted.Volumes)},
	} {
		if !field.carried {
			missing = append(missing, "runtime."+field.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Subscription %q is user-managed, and its pods do not have %s: set it in spec.config of the Subscription", s.name(), strings.Join(missing, ", "))}
}

func carriesAll[T any](live, wanted []T) bool {
	return !slices.ContainsFunc(wanted, func(w T) bool {
		return !slices.ContainsFunc(live, func(l T) bool { return equality.Semantic.DeepEqual(l, w) })
	})
}

// carriesKeys ignores the annotation that the manager sets itself.
func carriesKeys(live, wanted map[string]string) bool {
	for key, value := range wanted {
		if key != render.RuntimeHashAnnotation && live[key] != value {
			return false
		}
	}
	return true
}
