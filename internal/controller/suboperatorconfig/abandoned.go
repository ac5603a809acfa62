package suboperatorconfig

import (
	"context"
	"fmt"
	"slices"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// reportAbandoned adds to an installation the custom resources that were removed without a run, and warns of them.
func (r *Reconciler) reportAbandoned(ctx context.Context, s *configScope, result *install.Result) error {
	if result.Status == nil {
		return nil
	}
	kinds := make([]string, 0, len(s.collection.Resources))
	for _, resource := range s.collection.Resources {
		kinds = append(kinds, resource.Kind)
	}
	abandoned, err := r.resolver().Abandoned(ctx, s.soc, result.Namespace, imports.GroupOf(s.oc, s.collection), kinds)
	if err != nil {
		return err
	}
	result.Status.Abandoned = abandoned
	if len(abandoned) > 0 {
		result.Warnings = append(result.Warnings, abandonedWarning(result.Namespace, abandoned))
	}
	return nil
}

// abandonedWarning names the latest ones first.
func abandonedWarning(namespace string, abandoned []v2beta2.AbandonedInstance) string {
	names := make([]string, 0, len(abandoned))
	for _, a := range slices.Backward(abandoned) {
		names = append(names, fmt.Sprintf("%s %s on %s", a.Kind, a.Name, a.ZosEndpoint))
	}
	subject, represented := fmt.Sprintf("%d resources were", len(names)), "what they represent"
	if len(names) == 1 {
		subject, represented = "1 resource was", "what it represents"
	}
	return fmt.Sprintf("namespace %q: %s removed without a run, and %s may be left on z/OS: %s", namespace, subject, represented, status.JoinNames(names))
}
