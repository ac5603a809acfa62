package install

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// annotationLeft marks a Secret of an installation that was removed because another collection replaces its own. It has nothing but
// what must not change, for the next installation of a SubOperatorConfig in the same namespace.
const annotationLeft = "zoscb.ibm.com/left-for-replacement"

// isLeftTo reports whether a replaced installation has left an object to those of the namespace of a SubOperatorConfig.
func isLeftTo(soc *v2beta2.SubOperatorConfig, live client.Object) bool {
	owner, ok := OwnerOf(live)
	return ok && live.GetAnnotations()[annotationLeft] != "" && owner.Namespace == soc.Namespace && render.IDOf(live.GetLabels()) != model.ID{}
}

// endpointsOf refers to the Secret with the endpoints of an installation.
func endpointsOf(soc *v2beta2.SubOperatorConfig, namespace string) v2beta2.ObjectReference {
	return secretReference(namespace, render.EndpointsSecretNameOf(RecordedCollection(soc)))
}

func secretReference(namespace, name string) v2beta2.ObjectReference {
	return v2beta2.ObjectReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret", Namespace: namespace, Name: name}
}

// leaveKey leaves the key that records of runs are signed with, and the names of Secrets that are kept, to the next installation, without
// endpoints and their credentials. It removes the Secret if a namespace does not consent any more.
func (r *Installer) leaveKey(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) error {
	ref := endpointsOf(soc, namespace)
	live := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if err == nil && OwnedBy(soc)(live) { // Otherwise it is somebody else's.
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, annotationLeft, "true")
		// A former version may have set it, and whoever takes over needs the Secret longer.
		live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == soc.UID })
		maps.DeleteFunc(live.Data, func(key string, _ []byte) bool { return key != gate.RecordKeyFile && key != gate.KeptSecretsFile })
		err = r.Client.Update(ctx, live, client.FieldOwner(apply.FieldOwner))
		if apierrors.IsForbidden(err) {
			return r.remove(ctx, soc, []v2beta2.ObjectReference{ref})
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("leaving Secret %s/%s to the next installation: %w", ref.Namespace, ref.Name, err)
	}
	before := soc.DeepCopy()
	soc.Status.Inventory = apply.Difference(soc.Status.Inventory, []v2beta2.ObjectReference{ref})
	return saveStatus(ctx, r.Client, soc, before)
}

// findLasting returns what must not change: that of the live Secret of this installation, or else of the one that it replaces, whose
// Secret is then removed with what else is obsolete. Live is empty if it does not exist. A new installation keeps no Secrets.
func (r *Installer) findLasting(ctx context.Context, s *scope, live *corev1.Secret) (render.Lasting, error) {
	own := lastingOf(live)
	if isLeftTo(s.Owner, live) { // The collection is back before another one took its place.
		s.created = false
		err := r.Client.Delete(ctx, live, client.Preconditions{UID: &live.UID})
		if client.IgnoreNotFound(err) != nil {
			return own, fmt.Errorf("deleting Secret %s/%s: %w", live.Namespace, live.Name, err)
		}
		if len(own.RecordKey) == gate.RecordKeyBytes {
			return own, nil
		}
	}
	inherited, err := r.findLeft(ctx, s)
	switch {
	case err != nil:
		return own, err
	case s.created && len(own.RecordKey) == gate.RecordKeyBytes:
		return own, nil
	case len(inherited.RecordKey) == gate.RecordKeyBytes:
		return inherited, nil
	}
	key := make([]byte, gate.RecordKeyBytes)
	_, _ = rand.Read(key) // It never fails.
	return render.Lasting{RecordKey: key, Kept: []byte("[]")}, nil
}

func lastingOf(secret *corev1.Secret) render.Lasting {
	return render.Lasting{RecordKey: secret.Data[gate.RecordKeyFile], Kept: secret.Data[gate.KeptSecretsFile]}
}

// mayInherit reports whether the cache has a Secret that a replaced installation may have left: it is there long before the collection that
// replaces it can be installed.
func (r *Installer) mayInherit(ctx context.Context, s *scope) bool {
	if s.Collection.Replaces == (model.ID{}) {
		return false
	}
	key := client.ObjectKey{Namespace: s.Namespace, Name: render.EndpointsSecretNameOf(s.Collection.Replaces)}
	_, cached, err := r.watched(ctx)(corev1.SchemeGroupVersion.WithKind(kindSecret), key)
	return cached || err != nil
}

func (r *Installer) findLeft(ctx context.Context, s *scope) (render.Lasting, error) {
	if s.Collection.Replaces == (model.ID{}) {
		return render.Lasting{}, nil
	}
	name := render.EndpointsSecretNameOf(s.Collection.Replaces)
	left := &corev1.Secret{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, left)
	switch {
	case apierrors.IsNotFound(err):
		return render.Lasting{}, nil
	case err != nil:
		return render.Lasting{}, fmt.Errorf("reading Secret %s/%s: %w", s.Namespace, name, err)
	case render.IDOf(left.Labels) != s.Collection.Replaces || !isLeftTo(s.Owner, left):
		return render.Lasting{}, nil
	}
	s.left = []v2beta2.ObjectReference{secretReference(s.Namespace, name)}
	return lastingOf(left), nil
}

// checkReplaced waits until the operator of a collection that this one replaces is gone from the namespace. The manager has removed its
// own; another one may be of a user's Subscription.
func (r *Installer) checkReplaced(ctx context.Context, s *scope) error {
	replaced := s.Collection.Replaces
	if replaced == (model.ID{}) {
		return nil
	}
	key := client.ObjectKey{Namespace: s.Namespace, Name: replaced.OperatorName()}
	if _, cached, err := r.watched(ctx)(appsv1.SchemeGroupVersion.WithKind("Deployment"), key); err == nil && !cached {
		return nil
	}
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	err := r.Reader.Get(ctx, key, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Deployment %s/%s: %w", s.Namespace, replaced.OperatorName(), err)
	case render.IDOf(live.Labels) != replaced:
		return nil
	}
	return status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
		"namespace %q: waiting until Deployment %q of collection %s, which this one replaces, is gone: if it was installed with a Subscription of your own, delete that",
		s.Namespace, live.Name, replaced)
}
