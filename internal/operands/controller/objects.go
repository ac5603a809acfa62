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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
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
		if filled == nil {
			return &resource{Object: object, phase: v1alpha1.OperandRunning}, nil
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
	uid, err := r.recordedUID(ctx, s, object.Entry(o.ID))
	if err != nil {
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, err
	}
	if !isCreated(live, object.Owner, uid) {
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, foreign(live)
	}
	return &resource{Object: object, live: live}, nil
}

// recordedUID returns the UID of an object that was created for the request, or "". One that was created for another operand of the request
// is taken over from that, unless other requests have it for another one than this, too: each would write what it wants in turn.
func (r *RequestReconciler) recordedUID(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (string, error) {
	recorded := s.entry(e)
	if recorded == nil {
		return "", nil
	}
	if isOf(*recorded, e) {
		return recorded.UID, nil
	}
	if e.Origin == v1alpha1.OriginBinding && recorded.Origin != e.Origin { // A copy does not replace what an operand specifies.
		return "", nil
	}
	if err := r.loadOthers(ctx, s); err != nil {
		return "", err
	}
	for _, other := range s.others {
		if !other.ends() && find(other.request.Status.Inventory, e) != nil && !other.agrees(e) {
			return "", nil
		}
	}
	return recorded.UID, nil
}

// isOf reports whether two entries are about the same operand, and were created for the same.
func isOf(a, b v1alpha1.InventoryEntry) bool {
	return a.Registry == b.Registry && a.Operand == b.Operand && a.Origin == b.Origin
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
		r.watcher.ensure(ctx, object.Kind, object.Key.Namespace)
		return health(live)
	}
	return r.applyObject(ctx, object, live, entry)
}

// checkPlace fails unless the kind has a namespace, and its owner agrees that resources of an OperandConfig are created in it.
func (r *RequestReconciler) checkPlace(ctx context.Context, o *operand, object *plan.Object) error {
	mapping, err := r.Client.RESTMapper().RESTMapping(object.Kind.GroupKind(), object.Kind.Version)
	if meta.IsNoMatchError(err) {
		return status.Waiting(v1alpha1.ReasonInvalidOperand, intervals.Missing, "the cluster has no kind %s in %s", object.Kind.Kind, object.Kind.GroupVersion())
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
	return r.checkConsent(ctx, object.Consent, o.ID.Registry.Namespace, object.Key.Namespace)
}

// isCreated reports whether a live object was created for an operand: the inventory has its UID, or it has our annotation, which we
// have applied. The latter is so for what another request has created, and after a crash or the restore of a backup.
func isCreated(live client.Object, owner, uid string) bool {
	return uid != "" && uid == string(live.GetUID()) || plan.IsApplied(live, owner)
}

// applyObject creates a resource, or writes it if that changes anything. Live is nil if it does not exist. Creating it makes also the fields
// with defaults ours; applying it gives these up.
func (r *RequestReconciler) applyObject(ctx context.Context, object *plan.Object, live *unstructured.Unstructured, entry *v1alpha1.InventoryEntry) (v1alpha1.OperandPhase, error) {
	if live == nil {
		live = configurationOf(object, object.Fields(nil))
		err := r.Client.Create(ctx, live, client.FieldOwner(FieldOwner), client.FieldValidation(metav1.FieldValidationStrict))
		if apierrors.IsAlreadyExists(err) { // Somebody else has created it in the meantime.
			return v1alpha1.OperandFailed, foreign(live)
		}
		if err != nil {
			return v1alpha1.OperandFailed, r.explain(err, unstructuredOf(object))
		}
	}
	entry.UID = string(live.GetUID())
	if err := r.ownApplied(ctx, live); err != nil {
		return v1alpha1.OperandFailed, r.explain(err, unstructuredOf(object))
	}
	others := merge.WithoutOwned(contentOf(live), live.GetManagedFields(), FieldOwner)
	fields := object.Fields(others)
	if !equality.Semantic.DeepEqual(merge.Overlay(others, fields), contentOf(live)) {
		applied := configurationOf(object, fields)
		applied.SetUID(live.GetUID())
		if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(FieldOwner)); err != nil {
			return v1alpha1.OperandFailed, r.explain(err, unstructuredOf(object))
		}
		live = applied
	}
	r.watcher.ensure(ctx, object.Kind, object.Key.Namespace)
	return health(live)
}

// ownApplied makes the fields with which an object was created those of its field manager that are applied, so that what is not applied any
// more is removed. Creating with apply would change an object that somebody else creates at the same time.
func (r *RequestReconciler) ownApplied(ctx context.Context, live *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldOwner), FieldOwner)
		if err != nil || patch == nil {
			return err
		}
		uid := live.GetUID()
		err = r.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch))
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
			return err
		}
		if live.GetUID() != uid {
			return fmt.Errorf("%s was replaced", apply.Name(live))
		}
		return err
	})
}

// configurationOf returns a planned object with these fields.
func configurationOf(object *plan.Object, fields map[string]any) *unstructured.Unstructured {
	u := unstructuredOf(object)
	for name, value := range fields {
		if name != "metadata" {
			u.Object[name] = value
		}
	}
	u.SetLabels(stringsOf(fields, "labels"))
	u.SetAnnotations(stringsOf(fields, "annotations"))
	return u
}

// foreign returns the error for an object that exists and is not ours.
func foreign(object client.Object) error {
	return status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing, "%s exists and was not created for this operand: delete or rename it", apply.Name(object))
}

// health returns the phase of a resource, by its conditions.
func health(live *unstructured.Unstructured) (v1alpha1.OperandPhase, error) {
	result := &kstatus.Result{}
	if computed, err := kstatus.Compute(live); err == nil { // Conditions of an unknown form say nothing.
		result = computed
	}
	switch result.Status {
	case kstatus.FailedStatus:
		return v1alpha1.OperandFailed, notHealthy(live, v1alpha1.ReasonOperandFailed, "has failed", result.Message)
	case kstatus.InProgressStatus:
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
		return status.Waiting(v1alpha1.ReasonFieldConflict, intervals.Missing,
			"%s: others have set %s: remove the fields there, or set them to the same values", name, status.JoinNames(conflicts))
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), fmt.Sprintf("User \"system:serviceaccount:%s:%s\" cannot ", r.Account.Namespace, r.Account.Name)):
		return r.notGranted(object)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), isMisfit(err):
		return status.Waiting(v2beta2.ReasonObjectRefused, intervals.Missing, "%s: %s", name, printable.Line(err.Error(), 1024))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// isMisfit reports whether the API server could not apply fields because they do not fit the schema of their kind. It has no reason for this.
func isMisfit(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object")
}

// notGranted returns an error with the command that lets this process use a kind in a namespace.
func (r *RequestReconciler) notGranted(object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind()
	return status.Waiting(v1alpha1.ReasonNotGranted, intervals.Missing,
		"ServiceAccount %q may not use kind %s in namespace %q: an administrator of that namespace can allow it: %s",
		r.Account, kind.Kind, object.GetNamespace(), plan.Grant(r.Account, kind.GroupKind(), r.resourceOf(kind).Resource, object.GetNamespace()))
}

func (r *RequestReconciler) resourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	mapping, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = r.Client.RESTMapper().RESTMapping(kind.GroupKind()) // In any version.
	}
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
