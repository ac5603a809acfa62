package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/printable"
	"github.com/collection-operator/collection-operator/internal/status"
)

// resource is a planned resource with its state.
type resource struct {
	*plan.Object
	// live is nil if it does not exist.
	live *unstructured.Unstructured
	// phase is that of a resource that cannot be created or changed. Otherwise it is empty.
	phase v1alpha1.OperandPhase
}

// observe reads a resource, and checks whether it can be created or changed.
func (r *RequestReconciler) observe(ctx context.Context, s *scope, o *operand, object *plan.Object) (*resource, error) {
	if err := r.checkPlace(ctx, o, object); err != nil {
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, err
	}
	if object.Origin == v1alpha1.OriginBinding {
		filled, err := r.fill(ctx, object)
		if err != nil {
			return &resource{Object: object, phase: v1alpha1.OperandCreating}, err
		}
		object = filled
	}
	live := unstructuredOf(object)
	err := r.Reader.Get(ctx, object.Key, live)
	switch {
	case apierrors.IsNotFound(err):
		return &resource{Object: object}, nil
	case err != nil:
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, r.explain(err, unstructuredOf(object))
	}
	uid := ""
	if e := s.entry(object.Entry(o.ID)); e != nil {
		uid = e.UID
	}
	if !isCreated(live, object.Owner, uid) {
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, status.Waiting(v2beta2.ReasonForeignObject, status.MissingInterval,
			"%s exists and was not created for this operand: delete or rename it", apply.Name(live))
	}
	return &resource{Object: object, live: live}, nil
}

// ensureObject creates a resource, or changes it, and returns its phase. It is created once the operator runs.
func (r *RequestReconciler) ensureObject(ctx context.Context, s *scope, o *operand, of *resource) (v1alpha1.OperandPhase, error) {
	object, live := of.Object, of.live
	if of.phase != "" {
		return of.phase, nil // Its error was reported.
	}
	entry := s.entry(object.Entry(o.ID))
	if live == nil {
		if o.phase.OperatorPhase != v1alpha1.OperatorRunning && object.Origin != v1alpha1.OriginBinding {
			return v1alpha1.OperandCreating, nil
		}
		return r.applyObject(ctx, object, nil, entry)
	}
	entry.UID = string(live.GetUID())
	if live.GetDeletionTimestamp() != nil {
		r.watcher.ensure(ctx, object.Kind, object.Key.Namespace)
		return v1alpha1.OperandCreating, status.Waiting(v1alpha1.ReasonOperandNotReady, status.Watched, "%s is being deleted, and is created again then", apply.Name(live))
	}
	if object.CreateOnly {
		return health(live)
	}
	return r.applyObject(ctx, object, live, entry)
}

// checkPlace fails unless the kind has a namespace, and its owner agrees that resources of an OperandConfig are created in it.
func (r *RequestReconciler) checkPlace(ctx context.Context, o *operand, object *plan.Object) error {
	mapping, err := r.Client.RESTMapper().RESTMapping(object.Kind.GroupKind(), object.Kind.Version)
	if meta.IsNoMatchError(err) {
		return status.Waiting(v1alpha1.ReasonInvalidOperand, status.MissingInterval, "the cluster has no kind %s in %s", object.Kind.Kind, object.Kind.GroupVersion())
	}
	if err != nil {
		return fmt.Errorf("kind %s: %w", object.Kind, err)
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return status.Waiting(v1alpha1.ReasonInvalidOperand, status.Watched, "%s %q has no namespace: only objects in namespaces can be requested", object.Kind.Kind, object.Key.Name)
	}
	if object.Origin != v1alpha1.OriginConfig {
		return nil
	}
	return r.checkConsent(ctx, o.ID.Registry.Namespace, object.Key.Namespace)
}

// isCreated reports whether a live object was created for an operand: the inventory has its UID, or it has our annotation, which we
// have applied. The latter is so for what another request has created, and after a crash or the restore of a backup.
func isCreated(live client.Object, owner, uid string) bool {
	return uid != "" && uid == string(live.GetUID()) ||
		live.GetAnnotations()[v1alpha1.AnnotationOperand] == owner &&
			merge.Owns(live.GetManagedFields(), FieldOwner, "f:metadata", "f:annotations", "f:"+v1alpha1.AnnotationOperand)
}

// applyObject writes a resource if that changes anything. Live is nil if it does not exist.
func (r *RequestReconciler) applyObject(ctx context.Context, object *plan.Object, live *unstructured.Unstructured, entry *v1alpha1.InventoryEntry) (v1alpha1.OperandPhase, error) {
	applied := unstructuredOf(object)
	var others map[string]any
	if live != nil {
		others = merge.WithoutOwned(contentOf(live), live.GetManagedFields(), FieldOwner)
	}
	fields := object.Fields(others)
	if live != nil && equality.Semantic.DeepEqual(merge.Overlay(others, fields), contentOf(live)) {
		r.watcher.ensure(ctx, object.Kind, object.Key.Namespace)
		return health(live)
	}
	for name, value := range fields {
		if name != "metadata" {
			applied.Object[name] = value
		}
	}
	applied.SetLabels(stringsOf(fields, "labels"))
	applied.SetAnnotations(stringsOf(fields, "annotations"))
	if live != nil {
		applied.SetUID(live.GetUID())
	}
	if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(FieldOwner)); err != nil {
		return v1alpha1.OperandFailed, r.explain(err, unstructuredOf(object))
	}
	entry.UID = string(applied.GetUID())
	r.watcher.ensure(ctx, object.Kind, object.Key.Namespace)
	return health(applied)
}

// health returns the phase of a resource, by its conditions.
func health(live *unstructured.Unstructured) (v1alpha1.OperandPhase, error) {
	result, err := kstatus.Compute(live)
	switch {
	case err != nil: // Conditions of an unknown form say nothing.
	case result.Status == kstatus.FailedStatus:
		return v1alpha1.OperandFailed, notHealthy(live, v1alpha1.ReasonOperandFailed, "has failed", result.Message)
	case result.Status == kstatus.InProgressStatus:
		return v1alpha1.OperandCreating, notHealthy(live, v1alpha1.ReasonOperandNotReady, "is not ready", result.Message)
	}
	return v1alpha1.OperandRunning, nil
}

func notHealthy(live client.Object, reason, what, message string) error {
	return status.Waiting(reason, status.Watched, "%s %s: %s", apply.Name(live), what, printable.Line(message, 1024))
}

// explain gives an error of the API server about an object a reason and the next step.
func (r *RequestReconciler) explain(err error, object client.Object) error {
	name := apply.Name(object)
	var conflicts []string
	var apiStatus apierrors.APIStatus
	if errors.As(err, &apiStatus) && apiStatus.Status().Details != nil {
		for _, cause := range apiStatus.Status().Details.Causes {
			if cause.Type == metav1.CauseTypeFieldManagerConflict {
				conflicts = append(conflicts, cause.Field+" ("+printable.Line(cause.Message, 256)+")")
			}
		}
	}
	switch {
	case len(conflicts) > 0:
		return status.Waiting(v1alpha1.ReasonFieldConflict, status.MissingInterval,
			"%s: others have set %s: remove the fields there, or set them to the same values", name, status.JoinNames(conflicts))
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), r.Account.Name):
		return r.notGranted(object)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return status.Waiting(v2beta2.ReasonObjectRefused, status.MissingInterval, "%s: %s", name, printable.Line(err.Error(), 1024))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Roles that administrators bind to the ServiceAccount of this process.
const (
	clusterRole = "collection-operator-operands-namespace"
	bindingRole = "collection-operator-operands-bindings"
	bindingName = "collection-operator-operands"
)

// notGranted returns an error with the commands that let this process use a kind in a namespace.
func (r *RequestReconciler) notGranted(object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind()
	namespace, account := object.GetNamespace(), r.Account.Namespace+":"+r.Account.Name
	commands := fmt.Sprintf("kubectl create rolebinding %s -n %s --clusterrole=%s --serviceaccount=%s", bindingName, namespace, clusterRole, account)
	if kind.Group == "" && (kind.Kind == "Secret" || kind.Kind == "ConfigMap") {
		commands = fmt.Sprintf("kubectl create rolebinding %[1]s -n %[2]s --clusterrole=%[1]s --serviceaccount=%[3]s", bindingRole, namespace, account)
	} else if kind.Group != v2beta2.GroupVersion.Group && kind.Group != sharedGroup {
		resource := r.resourceOf(kind)
		role := bindingName + "-" + resource.Resource
		commands = fmt.Sprintf("kubectl create role %s -n %s --verb=get,list,watch,create,patch,delete --resource=%s && kubectl create rolebinding %s -n %s --role=%s --serviceaccount=%s",
			role, namespace, strings.TrimSuffix(resource.String(), "."), role, namespace, role, account)
	}
	return status.Waiting(v1alpha1.ReasonNotGranted, status.MissingInterval,
		"ServiceAccount %q may not use kind %s in namespace %q: an administrator of that namespace can allow it: %s", r.Account, kind.Kind, namespace, commands)
}

// sharedGroup is the API group of the kinds of collections.
const sharedGroup = "suboperator.zoscb.ibm.com"

func (r *RequestReconciler) resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	mapping, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return plural.GroupResource()
	}
	return mapping.Resource.GroupResource()
}

func unstructuredOf(object *plan.Object) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(object.Kind)
	u.SetNamespace(object.Key.Namespace)
	u.SetName(object.Key.Name)
	return u
}

// contentOf returns the fields of a live object that [plan.Object] is about.
func contentOf(live *unstructured.Unstructured) map[string]any {
	content := map[string]any{}
	for name, value := range live.Object {
		switch name {
		case "apiVersion", "kind", "status", "metadata":
		default:
			content[name] = value
		}
	}
	metadata := map[string]any{}
	for _, name := range []string{"labels", "annotations"} {
		if value, exists, _ := unstructured.NestedFieldNoCopy(live.Object, "metadata", name); exists {
			metadata[name] = value
		}
	}
	content["metadata"] = metadata
	return content
}

func stringsOf(fields map[string]any, name string) map[string]string {
	values, _, _ := unstructured.NestedStringMap(fields, "metadata", name)
	return values
}
