package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// checkEnvironment rejects runtime settings that would read Secrets or ConfigMaps of another namespace, or that other controllers may act
// upon there, such as those that inject volumes, and identities of a cloud: its consent covers running an operator, not using its data.
func checkEnvironment(_ context.Context, i *Installation) error {
	if i.Namespace == i.Owner.Namespace {
		return nil
	}
	for _, variable := range i.Runtime.Env {
		if from := variable.ValueFrom; from != nil && (from.SecretKeyRef != nil || from.ConfigMapKeyRef != nil) {
			return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched,
				"runtime.env: variable %q must not read a Secret or ConfigMap of the mapped namespace %q: set a value, use runtime.envFrom, or map %q from a SubOperatorConfig in that namespace",
				variable.Name, i.Namespace, i.Namespace)
		}
	}
	for _, field := range []struct {
		name string
		set  map[string]string
	}{
		{"podAnnotations", i.Runtime.PodAnnotations}, {"podLabels", i.Runtime.PodLabels}, {"serviceAccountAnnotations", i.Runtime.ServiceAccountAnnotations},
	} {
		if len(field.set) > 0 {
			return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched,
				"runtime.%s must not be set for the mapped namespace %q: remove it, or map %q from a SubOperatorConfig in that namespace",
				field.name, i.Namespace, i.Namespace)
		}
	}
	return nil
}

// checkReferences rejects runtime settings that name objects of the namespace without the label with which its owner lets operators
// use them. It reads metadata only, and nothing if the pods are configured as planned already: a withdrawn label does not stop them.
func (o *objects) checkReferences(ctx context.Context, i *Installation, runtime *v2beta2.RuntimeSpec, plan *Plan) error {
	references := render.References(runtime)
	if len(references) == 0 || !o.changesPods(ctx, plan) {
		return nil
	}
	for _, ref := range references {
		if ref.Field == "imagePullSecrets" && i.Backend.Method() == v2beta2.InstallOLM {
			continue // A Subscription does not pass them on.
		}
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := o.reader.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: ref.Name}, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading %s %q: %w", ref.Kind, i.Namespace+"/"+ref.Name, err)
		}
		label, isLabelled := object.Labels[v2beta2.LabelRuntime]
		refusal := refuseReference(i, ref, err == nil, label)
		if refusal == nil {
			continue
		}
		if isLabelled {
			return refusal
		}
		if isUsed, err := o.podsUse(ctx, i, runtime.Env, ref); err != nil || !isUsed {
			return cmp.Or(err, refusal)
		}
	}
	return nil
}

// changesPods reports whether the planned Deployment or Subscription is not known to be what the cluster has.
func (o *objects) changesPods(ctx context.Context, plan *Plan) bool {
	applier := o.applier(ctx)
	return slices.ContainsFunc(plan.Objects, func(object client.Object) bool {
		switch object.(type) {
		case *appsv1.Deployment, *operatorsv1alpha1.Subscription:
			return !applier.IsApplied(object)
		}
		return false
	})
}

// podsUse reports whether the pods have the variables of the environment from an object already: earlier managers asked for no label on it.
func (o *objects) podsUse(ctx context.Context, i *Installation, env []corev1.EnvVar, ref render.Reference) (bool, error) {
	if ref.Field != render.FieldEnv || ref.Kind == kindSecret && endpoint.IsOwnSecret(ref.Name) {
		return false, nil
	}
	live, key := &appsv1.Deployment{}, client.ObjectKey{Namespace: i.Namespace, Name: i.Collection.OperatorName()}
	if err := o.reader.Get(ctx, key, live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return slices.ContainsFunc(live.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return ref.IsReadBy(&c, env)
	}), nil
}

// refuseReference returns why an operator may not use an object with this label, or nil. Whoever maps another namespace, and cannot read
// it, does not learn which objects exist there.
func refuseReference(i *Installation, ref render.Reference, exists bool, label string) error {
	operator, key := i.Collection.OperatorName(), i.Namespace+"/"+ref.Name
	if ref.Kind == kindSecret && endpoint.IsOwnSecret(ref.Name) {
		return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, intervals.Missing,
			"runtime.%s: Secret %q belongs to Collection Operator, and no pod may use it: name another one", ref.Field, key)
	}
	needs := fmt.Sprintf("it needs the label %[1]s=%[2]s, or %[1]s=%[3]s", v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll, operator)
	switch {
	case exists && endpoint.IsRuntimeLabel(label, operator):
		return nil
	case i.Namespace != i.Owner.Namespace:
		return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, intervals.Missing,
			"runtime.%s: %s %q does not exist, or does not allow its use by operators: %s", ref.Field, ref.Kind, key, needs)
	case !exists:
		return status.Waiting(v2beta2.ReasonRuntimeObjectMissing, intervals.Missing,
			"runtime.%s: %s %q does not exist: create it with the label %s=%s", ref.Field, ref.Kind, key, v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll)
	}
	return status.Waiting(v2beta2.ReasonRuntimeObjectNotAllowed, intervals.Missing,
		"runtime.%s: %s %q does not allow its use by operators: %s", ref.Field, ref.Kind, key, needs)
}

// checkPermissions checks the roles before anything is applied, also if OLM writes them: OLM would grant any permission of
// the ClusterServiceVersion. The API server repeats a part of the check when the manager writes a role.
func checkPermissions(ctx context.Context, source *grants.Source, i *Installation, options render.InstallationOptions) (warnings []string, err error) {
	base := render.BaseRules(i.Collection, i.Group, options.PersonalCredentials)
	var roles []grants.Role
	for _, object := range render.Roles(i.Collection, options) {
		switch role := object.(type) {
		case *rbacv1.Role:
			roles = append(roles, grants.Role{Namespace: role.Namespace, Rules: role.Rules, Given: base})
		case *rbacv1.ClusterRole:
			roles = append(roles, grants.Role{Rules: role.Rules})
		default:
			return nil, fmt.Errorf("%T is not a role", object)
		}
	}
	return source.Check(ctx, render.Grantee{ID: i.Collection.ID(), Namespace: i.OperatorCollection.Namespace, Digest: i.Digest}, roles)
}

// checkReplaced waits until the operator of a collection that this one replaces is gone from the namespace. The manager has removed its
// own; another one may be of a user's Subscription.
func (o *objects) checkReplaced(ctx context.Context, i *Installation) error {
	replaced := i.Collection.Replaces
	if replaced == (model.ID{}) {
		return nil
	}
	key := client.ObjectKey{Namespace: i.Namespace, Name: replaced.OperatorName()}
	if _, cached, err := o.watched(ctx)(appsv1.SchemeGroupVersion.WithKind(kindDeployment), key); err == nil && !cached {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kindDeployment))
	err := o.reader.Get(ctx, key, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Deployment %s/%s: %w", i.Namespace, replaced.OperatorName(), err)
	case render.IDOf(live.Labels) != replaced:
		return nil
	}
	return status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
		"namespace %q: waiting until Deployment %q of collection %s, which this one replaces, is gone: if it was installed with a Subscription of your own, delete that",
		i.Namespace, live.Name, replaced)
}
