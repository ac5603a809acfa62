// Package upgradecheck says what another version of a collection means for the custom resources that exist.
package upgradecheck

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Preflighter evaluates living custom resources against another version of their collection.
type Preflighter struct {
	// Reader reads live objects.
	Reader      client.Reader
	Collections *imports.CollectionCache
}

// Check evaluates the custom resources in namespaces in which an archive is installed against a version. Planned are its CRDs by kind; if
// it is nil, they are written already. What was installed is unknown if its archive cannot be read any more: then the API server's
// rules alone decide.
func (p Preflighter) Check(ctx context.Context, installed digest.Digest, is *model.Collection, group string,
	planned map[string]*apiextensionsv1.CustomResourceDefinition, namespaces []string) (preflight.Report, *upgrade.Evaluator, error) {
	was, err := p.Collections.Load(installed)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !status.AsError(imports.LoadFailure(err)).Stalled {
		return preflight.Report{}, nil, imports.LoadFailure(err)
	}
	definitions, err := p.definitions(ctx, is, group)
	if err != nil {
		return preflight.Report{}, nil, err
	}
	if planned == nil {
		planned = map[string]*apiextensionsv1.CustomResourceDefinition{}
		for i := range definitions {
			planned[definitions[i].Spec.Names.Kind] = &definitions[i]
		}
	}
	evaluator, err := upgrade.NewEvaluator(was, is, planned)
	if err != nil {
		return preflight.Report{}, nil, err
	}
	report, err := preflight.Check(ctx, p.Reader, evaluator, preflight.Kinds(definitions), namespaces)
	return report, evaluator, err
}

// definitions are the CRDs of a collection in an API group, and those that it takes over from one that it replaces.
func (p Preflighter) definitions(ctx context.Context, is *model.Collection, group string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	finder := &instances.Finder{Reader: p.Reader}
	definitions, err := finder.CRDs(ctx, is.ID())
	if err != nil {
		return nil, err
	}
	if is.Replaces != (model.ID{}) {
		replaced, err := finder.CRDs(ctx, is.Replaces)
		if err != nil {
			return nil, err
		}
		definitions = append(definitions, takenOver(replaced, is)...)
	}
	return slices.DeleteFunc(definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Group != group }), nil
}

// takenOver are those CRDs of a replaced collection that another one has kinds for. The others stay as they are.
func takenOver(replaced []apiextensionsv1.CustomResourceDefinition, by *model.Collection) []apiextensionsv1.CustomResourceDefinition {
	return slices.DeleteFunc(replaced, func(d apiextensionsv1.CustomResourceDefinition) bool {
		_, has := by.Resource(d.Spec.Names.Kind)
		return !has
	})
}

// MaxWarnings bounds the warnings in status.
const MaxWarnings = 20

// AcceptsBreaking reports whether another version is installed also if it does not fit custom resources.
func AcceptsBreaking(oc *v2beta2.OperatorCollection) bool {
	return oc.Spec.Upgrade != nil && oc.Spec.Upgrade.Policy == v2beta2.UpgradeAllowBreaking
}

// SetUpgradeBlocked sets the condition UpgradeBlocked, or removes it if blocked is nil.
func SetUpgradeBlocked(conditions *[]metav1.Condition, generation int64, blocked error) {
	if blocked == nil {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionUpgradeBlocked)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: v2beta2.ConditionUpgradeBlocked, Status: metav1.ConditionTrue, Reason: v2beta2.ReasonUpgradeBlocked,
		Message: status.Message(blocked.Error()), ObservedGeneration: generation,
	})
}

// UpgradeBlock returns err if custom resources block an upgrade.
func UpgradeBlock(err error) error {
	if f := status.AsError(err); f != nil && f.Reason == v2beta2.ReasonUpgradeBlocked {
		return f
	}
	return nil
}
