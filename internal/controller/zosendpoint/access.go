package zosendpoint

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// accessName returns the name of the Role and RoleBinding of a ZosEndpoint. It has at most 253 characters, because the
// name of a ZosEndpoint has at most 241.
func accessName(e *v2beta2.ZosEndpoint) string { return "zosendpoint-" + e.Name }

// accessRole lets operators read a ZosEndpoint, and read and update the state of its security domain.
func accessRole(e *v2beta2.ZosEndpoint) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: accessMeta(e),
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v2beta2.GroupVersion.Group}, Resources: []string{"zosendpoints"}, ResourceNames: []string{e.Name}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{endpoint.StateName(e)}, Verbs: []string{"get", "update"}},
		},
	}
}

func accessBinding(e *v2beta2.ZosEndpoint, operators []rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: accessMeta(e),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: accessName(e)},
		Subjects:   operators,
	}
}

func accessMeta(e *v2beta2.ZosEndpoint) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: e.Namespace, Name: accessName(e), Labels: map[string]string{render.LabelManagedBy: render.ManagedBy},
	}
}

// accessGranter lets operators use endpoints.
type accessGranter struct {
	client client.Client
	reader client.Reader
}

// grant creates and updates the Role and the RoleBinding of the operators that may use the endpoint. Without such
// operators there is no RoleBinding.
func (r *accessGranter) grant(ctx context.Context, e *v2beta2.ZosEndpoint, operators []rbacv1.Subject) error {
	role, binding := accessRole(e), accessBinding(e, operators)
	liveRole, liveBinding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	key := client.ObjectKeyFromObject(role)
	for _, live := range []client.Object{liveRole, liveBinding} {
		if err := client.IgnoreNotFound(r.reader.Get(ctx, key, live)); err != nil {
			return fmt.Errorf("reading the permissions %q: %w", key, err)
		}
	}
	ours := func(live client.Object) bool { return owns(e, live) }
	mayChange := func(live client.Object) bool {
		return ours(live) || live.GetUID() == liveRole.UID && isRestored(liveRole) && equality.Semantic.DeepEqual(liveRole.Rules, role.Rules) ||
			live.GetUID() == liveBinding.UID && isRestored(liveBinding) && liveBinding.RoleRef == binding.RoleRef
	}
	applier := &apply.Applier{Client: r.client, Reader: r.reader}

	var changed []client.Object
	if !ours(liveRole) || !labelledByUs(liveRole) || !equality.Semantic.DeepEqual(liveRole.Rules, role.Rules) {
		changed = append(changed, role)
	}
	switch {
	case len(operators) > 0:
		if !ours(liveBinding) || !labelledByUs(liveBinding) || !equality.Semantic.DeepEqual(liveBinding.Subjects, binding.Subjects) {
			changed = append(changed, binding)
		}
	case ours(liveBinding):
		if _, err := applier.Prune(ctx, apply.Inventory([]client.Object{binding}), ours); err != nil {
			return accessError(err)
		}
	}
	for _, object := range changed {
		if err := controllerutil.SetOwnerReference(e, object, r.client.Scheme()); err != nil {
			return err
		}
	}
	_, err := applier.Apply(ctx, changed, mayChange)
	return accessError(err)
}

// accessError gives an error of [apply.Applier] its reason.
func accessError(err error) error {
	var foreign *apply.ForeignObjectError
	switch {
	case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case errors.As(err, &foreign):
		return status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing, "%w", err)
	}
	return status.Retry(v2beta2.ReasonApplyFailed, err)
}

func labelledByUs(object client.Object) bool {
	return object.GetLabels()[render.LabelManagedBy] == render.ManagedBy
}

// isRestored reports whether an object may have been restored from a backup: those have no owner references.
func isRestored(object client.Object) bool {
	return object.GetUID() != "" && len(object.GetOwnerReferences()) == 0 && labelledByUs(object)
}

// owns reports whether an object has an owner reference to a ZosEndpoint.
func owns(e *v2beta2.ZosEndpoint, object client.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		if owner.UID == e.UID && isEndpoint(owner) {
			return true
		}
	}
	return false
}

func isEndpoint(owner metav1.OwnerReference) bool {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && gv.Group == v2beta2.GroupVersion.Group && owner.Kind == "ZosEndpoint"
}
