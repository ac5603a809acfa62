package install

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// maxInstallations is the maximum number of installations that a [Memory] has.
const maxInstallations = 1 << 14

// Memory remembers what was seen of installations, so that what has not changed is not read again. It is safe for concurrent use.
type Memory struct {
	// Applied has the objects that were seen to be as rendered.
	Applied *apply.Memory
	// available has the state in which a live read has shown a Deployment to be available.
	available *lru.Cache
	// contents has what was rendered into Secrets and ConfigMaps that is needed again: the keys that records of runs are signed with,
	// and digests of authorities.
	contents *lru.Cache
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{Applied: apply.NewMemory(), available: lru.New(maxInstallations), contents: lru.New(2 * maxInstallations)}
}

func (m *Memory) confirm(deployment client.ObjectKey, state apply.State) {
	m.available.Add(deployment, state)
}

func (m *Memory) isConfirmed(deployment client.ObjectKey, state apply.State) bool {
	confirmed, ok := m.available.Get(deployment)
	return ok && confirmed == state
}

// contentKey names a Secret or a ConfigMap, and the SubOperatorConfig that it was rendered for: another one may render an object of the
// same name, which it may not write.
type contentKey struct {
	kind string
	client.ObjectKey
	owner types.UID
}

// content returns what was last rendered into an object of a SubOperatorConfig, if that is as it was rendered by what the cache has of it.
func (r *Installer) content(ctx context.Context, owner *v2beta2.SubOperatorConfig, kind string, key client.ObjectKey) (string, bool) {
	found, ok := r.Memory.contents.Get(contentKey{kind, key, owner.UID})
	if !ok {
		return "", false
	}
	cached := &metav1.PartialObjectMetadata{}
	cached.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	if err := r.Cache.Get(ctx, key, cached); err != nil || !OwnedBy(owner)(cached) {
		return "", false
	}
	group := cached.GroupVersionKind().GroupKind()
	if !r.Memory.Applied.Has(group, key, apply.LiveState(cached, group)) {
		return "", false
	}
	return found.(string), true
}

func (r *Installer) rememberContent(owner *v2beta2.SubOperatorConfig, kind string, key client.ObjectKey, content string) {
	r.Memory.contents.Add(contentKey{kind, key, owner.UID}, content)
}

// Trusts reports whether it is known without a request that pods trust these authorities, by the ConfigMap of an installation.
func (r *Installer) Trusts(ctx context.Context, owner *v2beta2.SubOperatorConfig, configMap client.ObjectKey, authorities string) bool {
	known, ok := r.content(ctx, owner, kindConfigMap, configMap)
	return ok && known == digestOf(authorities)
}

// rememberAuthorities remembers the authorities in the ConfigMaps of an installation.
func (r *Installer) rememberAuthorities(s *scope) {
	for _, object := range s.plan.Objects {
		if config, ok := object.(*corev1.ConfigMap); ok && !slices.Contains(s.plan.Postponed, object) {
			r.rememberContent(s.Owner, kindConfigMap, client.ObjectKeyFromObject(config), digestOf(config.Data[render.KeyArtifactAuthorities]))
		}
	}
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
)

// watched returns the state of an object as the cache has it. Secrets and other kinds are cached as metadata, Deployments with the state
// of their pods.
func (r *Installer) watched(ctx context.Context) apply.Watched {
	return func(kind schema.GroupVersionKind, key client.ObjectKey) (apply.State, bool, error) {
		var object client.Object
		switch kind.Kind {
		case "Deployment":
			object = &appsv1.Deployment{}
		case operatorsv1alpha1.SubscriptionKind:
			object = &operatorsv1alpha1.Subscription{}
		default:
			metadata := &metav1.PartialObjectMetadata{}
			metadata.SetGroupVersionKind(kind)
			object = metadata
		}
		err := r.Cache.Get(ctx, key, object)
		switch {
		case apierrors.IsNotFound(err):
			return "", false, nil
		case err != nil:
			return "", false, fmt.Errorf("reading %s %q from the cache: %w", kind.Kind, key, err)
		case kind.Kind == "Deployment":
			return DeploymentState(object), true, nil
		}
		return apply.LiveState(object, kind.GroupKind()), true, nil
	}
}
