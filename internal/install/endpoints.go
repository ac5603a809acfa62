package install

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// secrets renders the Secrets with the endpoints of installations. They have what must not change: the key that records of runs
// are signed with, and the names of Secrets that are kept. It is taken from the live Secret, or inherited from an installation that was
// replaced.
type secrets struct{ *objects }

// endpointsSecret is the Secret with the endpoints of one installation.
type endpointsSecret struct {
	object  *corev1.Secret
	lasting render.Lasting
	// exists is true if the Secret existed before this reconciliation, and was created for the same owner.
	exists bool
	// unkept is why it is not known which Secrets living resources name, or nil. Until it is, the pods stay as they are.
	unkept error
	// left is what a replaced installation has left to this one.
	left []v2beta2.ObjectReference
}

// render reads the live Secret only if that is not known to be as it was rendered.
func (e secrets) render(ctx context.Context, i *Installation) (endpointsSecret, error) {
	key := client.ObjectKey{Namespace: i.Namespace, Name: render.EndpointsSecretName(i.Collection)}
	known, isKnown := e.content(ctx, i.Owner, kindSecret, key)
	secret, err := endpointsSecret{lasting: lastingIn(known), exists: isKnown}, error(nil)
	if !isKnown || e.mayInherit(ctx, i) {
		secret, err = e.find(ctx, i, key)
	}
	if err != nil {
		return secret, err
	}
	if secret.lasting.Kept == nil {
		secret.lasting.Kept, secret.unkept = e.findKept(ctx, i, secret.lasting.RecordKey)
	}
	secret.object, err = render.EndpointsSecret(i.Collection, i.Namespace, i.Owner.Namespace, i.Endpoints, secret.lasting)
	if err != nil {
		return secret, status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	e.memory.contents.Add(contentKey{kindSecret, key, i.Owner.UID}, string(secret.lasting.RecordKey)+string(secret.lasting.Kept))
	setOwner(i.Owner, secret.object)
	return secret, nil
}

// lastingIn returns what render has remembered.
func lastingIn(content string) render.Lasting {
	lasting := render.Lasting{RecordKey: []byte(content[:min(len(content), gate.RecordKeyBytes)])}
	if len(content) > gate.RecordKeyBytes {
		lasting.Kept = []byte(content[gate.RecordKeyBytes:])
	}
	return lasting
}

// find returns what must not change: that of the live Secret of this installation, or else of the one that it replaces, whose
// Secret is then removed with what else is obsolete. A new installation keeps no Secrets.
func (e secrets) find(ctx context.Context, i *Installation, key client.ObjectKey) (found endpointsSecret, err error) {
	live := &corev1.Secret{}
	err = e.reader.Get(ctx, key, live)
	if client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("reading Secret %q: %w", key, err)
	}
	found = endpointsSecret{lasting: lastingOf(live), exists: err == nil && OwnedBy(i.Owner)(live)}
	hasKey := len(found.lasting.RecordKey) == gate.RecordKeyBytes
	if isLeftTo(i.Owner, live) { // The collection is back before another one took its place.
		found.exists = false
		err := e.client.Delete(ctx, live, client.Preconditions{UID: &live.UID})
		if client.IgnoreNotFound(err) != nil {
			return found, fmt.Errorf("deleting Secret %s/%s: %w", live.Namespace, live.Name, err)
		}
		if hasKey {
			return found, nil
		}
	}
	var inherited render.Lasting
	inherited, found.left, err = e.findLeft(ctx, i)
	if err != nil || found.exists && hasKey {
		return found, err
	}
	if found.lasting = inherited; len(inherited.RecordKey) != gate.RecordKeyBytes {
		found.lasting = render.Lasting{RecordKey: make([]byte, gate.RecordKeyBytes), Kept: []byte("[]")}
		_, _ = rand.Read(found.lasting.RecordKey) // It never fails.
	}
	return found, nil
}

func lastingOf(secret *corev1.Secret) render.Lasting {
	return render.Lasting{RecordKey: secret.Data[gate.RecordKeyFile], Kept: secret.Data[gate.KeptSecretsFile]}
}

// mayInherit reports whether the cache has a Secret that a replaced installation may have left: it is there long before the collection that
// replaces it can be installed.
func (e secrets) mayInherit(ctx context.Context, i *Installation) bool {
	if i.Collection.Replaces == (model.ID{}) {
		return false
	}
	key := client.ObjectKey{Namespace: i.Namespace, Name: render.EndpointsSecretNameOf(i.Collection.Replaces)}
	_, cached, err := e.watched(ctx)(corev1.SchemeGroupVersion.WithKind(kindSecret), key)
	return cached || err != nil
}

// findLeft returns what a replaced installation has left, and the Secret that has it.
func (e secrets) findLeft(ctx context.Context, i *Installation) (render.Lasting, []v2beta2.ObjectReference, error) {
	if i.Collection.Replaces == (model.ID{}) {
		return render.Lasting{}, nil, nil
	}
	name := render.EndpointsSecretNameOf(i.Collection.Replaces)
	left := &corev1.Secret{}
	err := e.reader.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: name}, left)
	switch {
	case apierrors.IsNotFound(err):
		return render.Lasting{}, nil, nil
	case err != nil:
		return render.Lasting{}, nil, fmt.Errorf("reading Secret %s/%s: %w", i.Namespace, name, err)
	case render.IDOf(left.Labels) != i.Collection.Replaces || !isLeftTo(i.Owner, left):
		return render.Lasting{}, nil, nil
	}
	return lastingOf(left), []v2beta2.ObjectReference{secretReference(i.Namespace, name)}, nil
}

// leave leaves the key that records of runs are signed with, and the names of Secrets that are kept, to the next installation, without
// endpoints and their credentials. It removes the Secret if a namespace does not consent any more.
func (e secrets) leave(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) error {
	ref := endpointsOf(soc, namespace)
	live := &corev1.Secret{}
	err := e.reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, live)
	if err == nil && OwnedBy(soc)(live) { // Otherwise it is somebody else's.
		metav1.SetMetaDataAnnotation(&live.ObjectMeta, annotationLeft, "true")
		// A former version may have set it, and whoever takes over needs the Secret longer.
		live.OwnerReferences = slices.DeleteFunc(live.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == soc.UID })
		maps.DeleteFunc(live.Data, func(key string, _ []byte) bool { return key != gate.RecordKeyFile && key != gate.KeptSecretsFile })
		err = e.client.Update(ctx, live, client.FieldOwner(apply.FieldOwner))
		if apierrors.IsForbidden(err) {
			return e.remove(ctx, soc, []v2beta2.ObjectReference{ref})
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("leaving Secret %s/%s to the next installation: %w", ref.Namespace, ref.Name, err)
	}
	before := soc.DeepCopy()
	soc.Status.Inventory = apply.Difference(soc.Status.Inventory, []v2beta2.ObjectReference{ref})
	return saveStatus(ctx, e.client, soc, before)
}

// endpointsOf refers to the Secret with the endpoints of an installation.
func endpointsOf(soc *v2beta2.SubOperatorConfig, namespace string) v2beta2.ObjectReference {
	return secretReference(namespace, render.EndpointsSecretNameOf(RecordedCollection(soc)))
}

func secretReference(namespace, name string) v2beta2.ObjectReference {
	return v2beta2.ObjectReference{APIVersion: corev1.SchemeGroupVersion.String(), Kind: kindSecret, Namespace: namespace, Name: name}
}

// maxKept is the number of names of Secrets that are kept, the first in order. Runs that use others wait for a label.
const maxKept = 1000

// findKept returns the names of the Secrets that the living custom resources of an installation name, as JSON: it was made by a manager
// that asked for no label. Those that do not exist, the product's own, and tokens of ServiceAccounts are not among them.
func (e secrets) findKept(ctx context.Context, i *Installation, recordKey gate.Key) ([]byte, error) {
	named, err := e.secretsInUse(ctx, i, recordKey)
	if err != nil {
		return nil, fmt.Errorf("finding out which Secrets resources use: %w", err)
	}
	kept := []string{}
	for _, name := range named {
		if endpoint.IsOwnSecret(name) || len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kindSecret))
		err := e.cache.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Secret %s/%s from the cache: %w", i.Namespace, name, err)
		}
		isToken := metav1.HasAnnotation(secret.ObjectMeta, corev1.ServiceAccountNameKey)
		if err == nil && !isToken && len(kept) < maxKept {
			kept = append(kept, name)
		}
	}
	return render.JSON(kept, "")
}

// secretsInUse returns the sorted names of the Secrets that the living custom resources of an installation name.
func (e secrets) secretsInUse(ctx context.Context, i *Installation, recordKey gate.Key) ([]string, error) {
	if !i.Collection.UsesPasswords() {
		return nil, nil
	}
	finder := instances.Finder{Client: e.client, Reader: e.reader}
	crds, err := finder.CRDs(ctx, i.Collection.ID())
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for n := range crds {
		resource, isDeclared := i.Collection.Resource(crds[n].Spec.Names.Kind)
		if !isDeclared || !resource.UsesPasswords() {
			continue
		}
		variables, err := render.GateVariables(i.Collection, resource.Vars)
		if err != nil {
			return nil, err
		}
		kind := gate.KindSettings{Variables: variables}
		err = finder.EachOf(ctx, &crds[n], i.Namespace, func(item *unstructured.Unstructured) {
			for _, name := range secretsOf(i.Collection, kind, recordKey, item) {
				names[name] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// secretsOf returns the names of the Secrets that a custom resource names, as its next run would get them.
func secretsOf(c *model.Collection, kind gate.KindSettings, key gate.Key, item *unstructured.Unstructured) []string {
	annotations := item.GetAnnotations()
	id := gate.Identity{Group: item.GroupVersionKind().Group, Kind: item.GetKind(), Namespace: item.GetNamespace(), Name: item.GetName()}
	last, accepts := key.Verify(id, annotations[gate.AnnotationRecord]), annotations[gate.AnnotationAcceptDefaults] == c.Version.String()
	spec, _, _ := unstructured.NestedMap(item.Object, "spec")
	variables, _ := gate.NewSupply(kind, last, gate.SetOf(item), accepts).Declared(spec)
	return kind.SecretNames(variables)
}
