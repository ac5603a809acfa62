package suboperatorconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// planner plans the installations of a SubOperatorConfig, one for each mapped namespace.
type planner struct {
	collections *collections
	resolver    *mapping.Resolver
	// olm is nil if the manager was started without a catalog.
	olm *olm.Cluster
	// settings hold for collections whose OperatorCollection or SubOperatorConfig does not say otherwise.
	settings render.Settings
}

// plan returns the installations that can be made, the results of the others, and problems of single endpoints, which do not affect the
// others.
func (p *planner) plan(ctx context.Context, soc *v2beta2.SubOperatorConfig, is *imported, mappings []v2beta2.NamespaceMapping, held holds) (
	installations []*install.Installation, failed []install.Result, problems []error) {
	dependencies, blocked := p.resolver.Dependencies(ctx, is.oc, p.settings.Dependencies)
	for _, m := range mappings {
		endpoints, unusable, err := p.resolver.Endpoints(ctx, soc, m)
		if err != nil {
			failed = append(failed, install.Result{Namespace: m.Namespace, Status: install.Recorded(soc, m.Namespace), Err: err})
			continue
		}
		problems = append(problems, unusable...)
		i := &install.Installation{
			Owner: soc, OperatorCollection: is.oc, Namespace: m.Namespace, Held: held[m.Namespace],
			Endpoints: endpoints, Dependencies: dependencies, Runtime: render.MergeRuntime(is.oc.Spec.Runtime, soc.Spec.Runtime),
		}
		lost := p.collections.setContent(ctx, i, is)
		i.Backend, i.Blocked = p.olm.Choose(ctx, i, p.settings.RuntimeImage)
		for _, problem := range []error{blocked, lost} {
			if i.Blocked == nil {
				i.Blocked = problem
			}
		}
		installations = append(installations, i)
	}
	return installations, failed, problems
}

// reportAbandoned adds to an installation the custom resources that were removed without a run, and warns of them.
func (p *planner) reportAbandoned(ctx context.Context, soc *v2beta2.SubOperatorConfig, is *imported, result *install.Result) error {
	if result.Status == nil {
		return nil
	}
	kinds := make([]string, 0, len(is.collection.Resources))
	for _, resource := range is.collection.Resources {
		kinds = append(kinds, resource.Kind)
	}
	abandoned, err := p.resolver.Abandoned(ctx, soc, result.Namespace, is.group(), kinds)
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

// authorityUpdater writes the certificate authorities that pods trust for the download of archives to the ConfigMaps of operators.
type authorityUpdater struct {
	client    client.Client
	reader    client.Reader
	installer *install.Installer
	// bundle has the authorities in PEM, or is "" as long as they are not known.
	bundle string
}

// update writes changed authorities to the ConfigMaps of operators that are installed. It does not depend on
// whether these can be updated otherwise: an operator that is suspended or being deleted, or waits for a grant or for the
// Operator Lifecycle Manager, must be able to restart. Namespaces that the manager must not write to are left out, and one that
// refuses the change is a problem that does not affect the others.
func (u *authorityUpdater) update(ctx context.Context, soc *v2beta2.SubOperatorConfig, mappings []v2beta2.NamespaceMapping) (problems []error, err error) {
	for _, ref := range soc.Status.Inventory {
		key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
		if ref.Kind != "ConfigMap" || !strings.HasSuffix(ref.Name, render.ConfigMapSuffix) || !mapping.Contains(mappings, ref.Namespace) ||
			u.installer.Trusts(ctx, soc, key, u.bundle) {
			continue
		}
		err := u.updateIn(ctx, soc, key)
		switch {
		case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
			problems = append(problems, status.Waiting(v2beta2.ReasonObjectRefused, intervals.Missing, "%w", err))
		case err != nil:
			return problems, err
		}
	}
	return problems, nil
}

func (u *authorityUpdater) updateIn(ctx context.Context, soc *v2beta2.SubOperatorConfig, key client.ObjectKey) error {
	live := &corev1.ConfigMap{}
	if err := u.reader.Get(ctx, key, live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading ConfigMap %q: %w", key, err)
	}
	// Without the key, an earlier version installed the operator, or a manager without TLS.
	before, has := live.Data[render.KeyArtifactAuthorities]
	if !has || before == u.bundle || u.bundle == "" || !install.OwnedBy(soc)(live) || live.DeletionTimestamp != nil {
		return nil
	}
	patch := client.MergeFrom(live.DeepCopy())
	live.Data[render.KeyArtifactAuthorities] = u.bundle
	if err := u.client.Patch(ctx, live, patch, client.FieldOwner(apply.FieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("updating the certificate authorities in ConfigMap %q: %w", key, err)
	}
	return nil
}
