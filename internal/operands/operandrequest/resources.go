package operandrequest

import (
	"context"
	"fmt"
	"maps"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// resources creates and changes the resources of operands.
type resources struct {
	*cluster.Access
	watcher *cluster.Watcher
}

// observe reads a resource, and checks whether it can be created or changed.
func (r *resources) observe(ctx context.Context, s *scope, o *operand, object *plan.Object) (*resource, error) {
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
	live := unstructuredOf(object.Kind, object.Key)
	err := r.Reader.Get(ctx, object.Key, live)
	switch {
	case apierrors.IsNotFound(err):
		return &resource{Object: object}, nil
	case err != nil:
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, r.Explain(err, unstructuredOf(object.Kind, object.Key))
	}
	uid, err := s.recordedUID(ctx, r.Reader, object.Entry(o.ID))
	if err != nil {
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, err
	}
	if !isCreated(live, object.Owner, uid) {
		return &resource{Object: object, phase: v1alpha1.OperandFailed}, foreign(live)
	}
	return &resource{Object: object, live: live}, nil
}

// checkPlace fails unless the kind has a namespace, and its owner agrees that resources of an OperandConfig are created in it.
func (r *resources) checkPlace(ctx context.Context, o *operand, object *plan.Object) error {
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
	return r.CheckConsent(ctx, object.Consent, o.ID.Registry.Namespace, object.Key.Namespace)
}

// fill returns the object with the content of its source, or nil if the cluster has no such kind: Routes are those of OpenShift. Tokens
// of ServiceAccounts are never copied.
func (r *resources) fill(ctx context.Context, object *plan.Object) (*plan.Object, error) {
	source := unstructuredOf(object.SourceKind, object.Source)
	err := r.Reader.Get(ctx, object.Source, source)
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		r.watcher.Ensure(ctx, object.SourceKind, object.Source.Namespace)
		return nil, status.Waiting(v1alpha1.ReasonBindingNotFound, status.Watched, "%s, which an OperandBindInfo names, does not exist yet", apply.Name(source))
	case err != nil:
		return nil, r.Explain(err, source)
	}
	r.watcher.Ensure(ctx, object.SourceKind, object.Source.Namespace)
	if kind, _, _ := unstructured.NestedString(source.Object, "type"); kind == string(corev1.SecretTypeServiceAccountToken) {
		return nil, status.Waiting(v1alpha1.ReasonInvalidOperand, status.Watched, "%s is a token of a ServiceAccount: these are not copied", apply.Name(source))
	}
	filled := *object
	filled.Config = maps.Clone(object.Config)
	if object.Paths != nil {
		data, err := object.Data(source.Object)
		if err != nil {
			return nil, status.Waiting(v1alpha1.ReasonBindingNotFound, status.Watched, "%s: %v", apply.Name(source), err)
		}
		filled.Config["data"] = data
		return &filled, nil
	}
	for _, field := range []string{"type", "data", "binaryData"} {
		if value, exists := source.Object[field]; exists {
			filled.Config[field] = value
		}
	}
	return &filled, nil
}

// ensure creates a resource, or changes it, and returns its phase. It is created once the operator runs.
func (r *resources) ensure(ctx context.Context, s *scope, o *operand, of *resource) (v1alpha1.OperandPhase, error) {
	object, live := of.Object, of.live
	if of.phase != "" {
		return of.phase, nil // Its error was reported.
	}
	entry := s.entry(object.Entry(o.ID))
	if live == nil {
		if o.phase.OperatorPhase != v1alpha1.OperatorRunning && object.Origin != v1alpha1.OriginBinding {
			return v1alpha1.OperandCreating, nil
		}
		return r.apply(ctx, object, nil, entry)
	}
	entry.UID = string(live.GetUID())
	if live.GetDeletionTimestamp() != nil {
		r.watcher.Ensure(ctx, object.Kind, object.Key.Namespace)
		return v1alpha1.OperandCreating, status.Waiting(v1alpha1.ReasonOperandNotReady, status.Watched, "%s is being deleted, and is created again then", apply.Name(live))
	}
	if object.CreateOnly {
		r.watcher.Ensure(ctx, object.Kind, object.Key.Namespace)
		return health(live)
	}
	return r.apply(ctx, object, live, entry)
}

// apply creates a resource, or writes it if that changes anything. Live is nil if it does not exist. Creating it makes also the fields
// with defaults ours; applying it gives these up.
func (r *resources) apply(ctx context.Context, object *plan.Object, live *unstructured.Unstructured, entry *v1alpha1.InventoryEntry) (v1alpha1.OperandPhase, error) {
	if live == nil {
		live = configurationOf(object, object.Fields(nil))
		err := r.Client.Create(ctx, live, client.FieldOwner(plan.FieldOwner), client.FieldValidation(metav1.FieldValidationStrict))
		if apierrors.IsAlreadyExists(err) { // Somebody else has created it in the meantime.
			return v1alpha1.OperandFailed, foreign(live)
		}
		if err != nil {
			return v1alpha1.OperandFailed, r.Explain(err, unstructuredOf(object.Kind, object.Key))
		}
	}
	entry.UID = string(live.GetUID())
	if err := r.ownApplied(ctx, live); err != nil {
		return v1alpha1.OperandFailed, r.Explain(err, unstructuredOf(object.Kind, object.Key))
	}
	others := merge.WithoutOwned(contentOf(live), live.GetManagedFields(), plan.FieldOwner)
	fields := object.Fields(others)
	if !equality.Semantic.DeepEqual(merge.Overlay(others, fields), contentOf(live)) {
		applied := configurationOf(object, fields)
		applied.SetUID(live.GetUID())
		if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(plan.FieldOwner)); err != nil {
			return v1alpha1.OperandFailed, r.Explain(err, unstructuredOf(object.Kind, object.Key))
		}
		live = applied
	}
	r.watcher.Ensure(ctx, object.Kind, object.Key.Namespace)
	return health(live)
}

// ownApplied makes the fields with which an object was created those of its field manager that are applied, so that what is not applied any
// more is removed. Creating with apply would change an object that somebody else creates at the same time.
func (r *resources) ownApplied(ctx context.Context, live *unstructured.Unstructured) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(plan.FieldOwner), plan.FieldOwner)
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
	u := unstructuredOf(object.Kind, object.Key)
	for name, value := range fields {
		if name != "metadata" {
			u.Object[name] = value
		}
	}
	u.SetLabels(stringsOf(fields, "labels"))
	u.SetAnnotations(stringsOf(fields, "annotations"))
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
