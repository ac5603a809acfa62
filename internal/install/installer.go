package install

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Installer installs and uninstalls collections.
type Installer struct {
	// Client reads through the cache, and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Cache has the objects that installations consist of, and their pods, as far as the manager watches them.
	Cache client.Reader
	// Memory has what was seen of installations.
	Memory *Memory
	// Recorder records events.
	Recorder events.EventRecorder
	// Grants decide which permissions operators may have.
	Grants *grants.Source
	// Settings apply to all installations.
	Settings render.Settings
	// KeepTrusted is true if Settings.TrustedAuthorities are not known: operators keep those that they have.
	KeepTrusted bool
	// OLM removes the objects that OLM created for a Subscription of an installation.
	OLM Remover
}

const (
	kindSecret     = "Secret"
	kindConfigMap  = "ConfigMap"
	kindDeployment = "Deployment"
)

// maxInstallations is the maximum number of installations that a [Memory] has.
const maxInstallations = 1 << 14

// Memory remembers what was seen of installations, so that what has not changed is not read again. It is safe for concurrent use.
type Memory struct {
	// Applied has the objects that were seen to be as rendered.
	Applied *apply.Memory
	// contents has what was rendered into Secrets and ConfigMaps that is needed again: the keys that records of runs are signed with,
	// and digests of authorities.
	contents *lru.Cache
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{Applied: apply.NewMemory(), contents: lru.New(2 * maxInstallations)}
}

// contentKey names a Secret or a ConfigMap, and the SubOperatorConfig that it was rendered for: another one may render an object of the
// same name, which it may not write.
type contentKey struct {
	kind string
	client.ObjectKey
	owner types.UID
}

// Remover removes objects that OLM created for a Subscription of an installation.
type Remover interface {
	// Available says whether the cluster has OLM and the manager may use it.
	Available() bool
	// InUse reports whether other operators need a shared object.
	InUse(ctx context.Context, live client.Object) (bool, error)
	// RemoveOperator removes the operator of a collection whose Subscription is deleted, and reports whether the removal is
	// complete. It keeps the operator if there is a Subscription that ours does not accept.
	RemoveOperator(ctx context.Context, id model.ID, namespace string, ours apply.Ours) (gone bool, err error)
}

// objects applies and removes the objects that installations consist of, and reads what is there of them. Its fields are those of the
// [Installer].
type objects struct {
	client        client.Client
	reader, cache client.Reader
	memory        *Memory
	olm           Remover
}

func (r *Installer) objects() *objects {
	return &objects{client: r.Client, reader: r.Reader, cache: r.Cache, memory: r.Memory, olm: r.OLM}
}

// Trusts reports whether it is known without a request that pods trust these authorities, by the ConfigMap of an installation.
func (r *Installer) Trusts(ctx context.Context, owner *v2beta2.SubOperatorConfig, configMap client.ObjectKey, authorities string) bool {
	known, ok := r.objects().content(ctx, owner, kindConfigMap, configMap)
	return ok && known == digestOf(authorities)
}

// RemoveOwners removes the owner references to a SubOperatorConfig, which earlier versions applied, from the objects of its installations.
// It needs nothing but the inventory, and writes metadata only: no pod restarts.
func (r *Installer) RemoveOwners(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	var errs []error
	for _, ref := range parts(soc, soc.Namespace) {
		if ref.Namespace != "" { // Those that are cluster-scoped never had any.
			errs = append(errs, r.objects().removeOwner(ctx, soc, ref))
		}
	}
	return errors.Join(errs...)
}

// apply returns the number of objects that were written.
func (o *objects) apply(ctx context.Context, owner *v2beta2.SubOperatorConfig, planned ...client.Object) (written int, err error) {
	written, err = o.applier(ctx).Apply(ctx, planned, OwnedBy(owner))
	return written, ApplyError(err)
}

func (o *objects) applier(ctx context.Context) *apply.Applier {
	return &apply.Applier{Client: o.client, Reader: o.reader, Memory: o.memory.Applied, Watched: o.watched(ctx)}
}

// ApplyError maps an error of [apply.Applier.Apply] to a typed error with a reason.
func ApplyError(err error) error {
	var foreign *apply.ForeignObjectError
	var refused *apply.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing, "%w", err)
	case errors.As(err, &refused) && refused.Kind.Group == rbacv1.GroupName && apierrors.IsForbidden(refused.Err) &&
		!apierrors.HasStatusCause(refused.Err, corev1.NamespaceTerminatingCause):
		return status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing,
			"the collection asks for permissions that the manager does not hold: bind them to the manager's ServiceAccount: %w", err)
	case errors.As(err, &refused):
		return status.Waiting(v2beta2.ReasonObjectRefused, intervals.Missing, "%w", err)
	}
	return status.Retry(v2beta2.ReasonApplyFailed, err)
}

// remove deletes objects and removes those that are gone from the inventory.
func (o *objects) remove(ctx context.Context, soc *v2beta2.SubOperatorConfig, refs []v2beta2.ObjectReference) error {
	if len(refs) == 0 {
		return nil
	}
	applier := &apply.Applier{Client: o.client, Reader: o.reader, InUse: o.olm.InUse, Aftermath: func(ctx context.Context, ref v2beta2.ObjectReference) (bool, error) {
		if ref.Kind != operatorsv1alpha1.SubscriptionKind {
			return true, nil
		}
		return o.olm.RemoveOperator(ctx, RecordedCollection(soc), ref.Namespace, OwnedBy(soc))
	}}
	remaining, err := applier.Prune(ctx, refs, OwnedBy(soc))
	before := soc.DeepCopy()
	soc.Status.Inventory = apply.Difference(soc.Status.Inventory, apply.Difference(refs, remaining))
	if err := errors.Join(err, saveStatus(ctx, o.client, soc, before)); err != nil || len(remaining) == 0 {
		return err
	}
	last := remaining[len(remaining)-1]
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "waiting until %s %s/%s is removed", last.Kind, last.Namespace, last.Name)
}

func (o *objects) removeOwner(ctx context.Context, soc *v2beta2.SubOperatorConfig, ref v2beta2.ObjectReference) error {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	err := o.reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	before := live.DeepCopy()
	live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == soc.UID })
	if len(live.OwnerReferences) == len(before.OwnerReferences) || !OwnedBy(soc)(live) {
		return nil
	}
	err = o.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(apply.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the owner reference of %s %s/%s: %w", ref.Kind, ref.Namespace, ref.Name, err)
	}
	return nil
}

// watched returns the state of an object as the cache has it. Secrets and other kinds are cached as metadata, Deployments with the state
// of their pods.
func (o *objects) watched(ctx context.Context) apply.Watched {
	return func(kind schema.GroupVersionKind, key client.ObjectKey) (apply.State, bool, error) {
		var object client.Object
		switch kind.Kind {
		case kindDeployment:
			object = &appsv1.Deployment{}
		case operatorsv1alpha1.SubscriptionKind:
			object = &operatorsv1alpha1.Subscription{}
		default:
			metadata := &metav1.PartialObjectMetadata{}
			metadata.SetGroupVersionKind(kind)
			object = metadata
		}
		err := o.cache.Get(ctx, key, object)
		switch {
		case apierrors.IsNotFound(err):
			return "", false, nil
		case err != nil:
			return "", false, fmt.Errorf("reading %s %q from the cache: %w", kind.Kind, key, err)
		case kind.Kind == kindDeployment:
			return DeploymentState(object), true, nil
		}
		return apply.LiveState(object, kind.GroupKind()), true, nil
	}
}

// content returns what was last rendered into an object of a SubOperatorConfig, if that is as it was rendered by what the cache has of it.
func (o *objects) content(ctx context.Context, owner *v2beta2.SubOperatorConfig, kind string, key client.ObjectKey) (string, bool) {
	found, ok := o.memory.contents.Get(contentKey{kind, key, owner.UID})
	if !ok {
		return "", false
	}
	cached := &metav1.PartialObjectMetadata{}
	cached.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := o.cache.Get(ctx, key, cached); err != nil || !OwnedBy(owner)(cached) {
		return "", false
	}
	group := cached.GroupVersionKind().GroupKind()
	if !o.memory.Applied.Has(group, key, apply.LiveState(cached, group)) {
		return "", false
	}
	return found.(string), true
}

// rememberAuthorities remembers the authorities in the ConfigMaps of an installation.
func (o *objects) rememberAuthorities(owner *v2beta2.SubOperatorConfig, plan *Plan) {
	for _, object := range plan.Objects {
		if config, ok := object.(*corev1.ConfigMap); ok && !slices.Contains(plan.Postponed, object) {
			key := contentKey{kindConfigMap, client.ObjectKeyFromObject(config), owner.UID}
			o.memory.contents.Add(key, digestOf(config.Data[render.KeyArtifactAuthorities]))
		}
	}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}
