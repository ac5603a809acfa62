package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// checkReferences rejects runtime settings that name objects of the namespace without the label with which its owner lets operators
// use them. It reads metadata only, and nothing if the pods are configured as planned already: a withdrawn label does not stop them.
func (r *Installer) checkReferences(ctx context.Context, s *scope) error {
	references := render.References(&s.options.Runtime)
	if len(references) == 0 || !r.changesPods(ctx, s) {
		return nil
	}
	for _, ref := range references {
		if ref.Field == "imagePullSecrets" && s.Backend.Method() == v2beta2.InstallOLM {
			continue // A Subscription does not pass them on.
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: ref.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %q: %w", ref.Kind, s.Namespace+"/"+ref.Name, err)
		}
		label, isLabelled := object.Labels[v2beta2.LabelRuntime]
		refusal := refuseReference(s, ref, err == nil, label)
		if refusal == nil {
			continue
		}
		if isLabelled {
			return refusal
		}
		if isUsed, err := r.podsUse(ctx, s, ref); err != nil || !isUsed {
			return cmp.Or(err, refusal)
		}
	}
	return nil
}

// podsUse reports whether the pods have the variables of the environment from an object already: earlier managers asked for no label on it.
func (r *Installer) podsUse(ctx context.Context, s *scope, ref render.Reference) (bool, error) {
	if ref.Field != render.FieldEnv || ref.Kind == kindSecret && endpoint.IsOwnSecret(ref.Name) {
		return false, nil
	}
	live, key := &appsv1.Deployment{}, client.ObjectKey{Namespace: s.Namespace, Name: s.Collection.OperatorName()}
	if err := r.Reader.Get(ctx, key, live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(live.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return ref.IsReadBy(&c, s.options.Runtime.Env)
	}), nil
}

// changesPods reports whether the planned Deployment or Subscription is not known to be what the cluster has.
func (r *Installer) changesPods(ctx context.Context, s *scope) bool {
	applier := r.applier(ctx)
	return slices.ContainsFunc(s.plan.Objects, func(o client.Object) bool {
		switch o.(type) {
		case *appsv1.Deployment, *operatorsv1alpha1.Subscription:
			return !applier.IsApplied(o)
		}
		return false
	})
}

// refuseReference returns why an operator may not use an object with this label, or nil. Whoever maps another namespace, and cannot read
// it, does not learn which objects exist there.
func refuseReference(s *scope, ref render.Reference, exists bool, label string) error {
	operator, key := s.Collection.OperatorName(), s.Namespace+"/"+ref.Name
	if ref.Kind == kindSecret && endpoint.IsOwnSecret(ref.Name) {
		return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, intervals.Missing,
			"runtime.%s: Secret %q belongs to Collection Operator, and no pod may use it: name another one", ref.Field, key)
	}
	needs := fmt.Sprintf("it needs the label %[1]s=%[2]s, or %[1]s=%[3]s", v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll, operator)
	switch {
	case exists && endpoint.IsRuntimeLabel(label, operator):
		return nil
	case s.Namespace != s.Owner.Namespace:
		return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, intervals.Missing,
			"runtime.%s: %s %q does not exist, or does not allow its use by operators: %s", ref.Field, ref.Kind, key, needs)
	case !exists:
		return status.Waiting(v2beta2.ReasonRuntimeObjectMissing, intervals.Missing,
			"runtime.%s: %s %q does not exist: create it with the label %s=%s", ref.Field, ref.Kind, key, v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll)
	}
	return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, intervals.Missing,
		"runtime.%s: %s %q does not allow its use by operators: %s", ref.Field, ref.Kind, key, needs)
}
