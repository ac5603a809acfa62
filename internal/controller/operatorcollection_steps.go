package controller

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/fetch"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/replica"
	"github.com/collection-operator/collection-operator/internal/status"
)

// importScope is what the steps of one reconcile share, and what status is computed from.
type importScope struct {
	// artifact is the archive that the spec asks for. It is verified and in the store.
	artifact *v2beta2.Artifact
	// hold keeps the archive in the store until status names it.
	hold *artifact.Hold
	// upload is the digest of the archive that the upload endpoint received last, or empty.
	upload digest.Digest
	// uploadPath is where the archive was uploaded, or empty.
	uploadPath string
	// collection is what the archive holds.
	collection *collection.Collection
	// others are the other OperatorCollections that have it.
	others []v2beta2.OperatorCollection
	// plan is how the collection's CRDs should be.
	plan []crd.Planned
	// accepted says that the archive replaces the one that was installed.
	accepted bool
	// kept says that the archive was imported before.
	kept bool
	// copies says which other managers lack the archive.
	copies replica.Copies
	// imported says that the collection's CRDs are Established too, and that the other managers have the archive.
	imported bool
	// check is the result of the last source check, if there is one.
	check *sourceCheck
	// validators are of the archive that is installed, while the source is checked for another one.
	validators fetch.Validators
	// configs are the SubOperatorConfigs that name the collection.
	configs []v2beta2.SubOperatorConfig
}

func addFinalizer(ctx context.Context, c client.Client, object client.Object) error {
	before := object.DeepCopyObject().(client.Object)
	if !controllerutil.AddFinalizer(object, Finalizer) {
		return nil
	}
	return c.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
}

func (r *OperatorCollectionReconciler) loadCollection(_ context.Context, _ *v2beta2.OperatorCollection, scope *importScope) error {
	c, err := r.Collections.Load(digest.Digest(scope.artifact.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	if err != nil {
		return loadFailure(err)
	}
	scope.collection = c
	return nil
}

// acceptArtifact records a new archive, which passed all checks, as the one that is imported.
func (r *OperatorCollectionReconciler) acceptArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	scope.accepted = true
	r.Source.checks.record(oc, scope.check)
	before := oc.DeepCopy()
	scope.describeCollection(oc)
	// The CRD controller makes CRDs from this status.
	if err := status.Patch(ctx, r.Client, oc, before); err != nil {
		return err
	}
	return r.Source.Pushes.Done(oc.Namespace, oc.Name, digest.Digest(scope.artifact.Digest))
}

// labelObject sets the labels that clients select by, unless the user set them, and records what was imported.
func (r *OperatorCollectionReconciler) labelObject(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	return r.recordImport(ctx, oc, render.Labels(scope.collection))
}

// addLabels sets the labels that an object lacks, and replaces other values of those named firm.
func addLabels(ctx context.Context, c client.Client, object client.Object, wanted map[string]string, firm ...string) error {
	before := object.DeepCopyObject().(client.Object)
	if !setLabels(object, wanted, firm...) {
		return nil
	}
	return c.Patch(ctx, object, client.MergeFrom(before), client.FieldOwner(fieldOwner))
}

// setLabels is addLabels without a write, and reports whether it changed anything.
func setLabels(object client.Object, wanted map[string]string, firm ...string) (changed bool) {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range wanted {
		if is, set := labels[name]; !set || is != value && slices.Contains(firm, name) {
			labels[name], changed = value, true
		}
	}
	if changed {
		object.SetLabels(labels)
	}
	return changed
}

// awaitCRDs waits until the CRD controller has made every kind of the collection available.
func (r *OperatorCollectionReconciler) awaitCRDs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if missing, err := missingCRDs(ctx, r.Client, scope.collection, groupOf(oc, scope.collection)); err != nil {
		return err
	} else if len(missing) > 0 {
		return status.Waiting(v2beta2.ReasonProgressing, status.PollInterval, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	return nil
}

// missingCRDs names the CRDs of a collection that do not serve its version yet.
func missingCRDs(ctx context.Context, c client.Reader, col *collection.Collection, group string) ([]string, error) {
	var missing []string
	for _, resource := range col.Resources {
		name := resource.Plural() + "." + group
		live := &apiextensionsv1.CustomResourceDefinition{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading CRD %q: %w", name, err)
		}
		if err != nil || !crd.Serves(live, col.APIVersion()) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// ensureDefaultSubOperatorConfig makes <name>-soc if nothing names the collection when it is imported, and removes an
// untouched one when another SubOperatorConfig does.
func (r *OperatorCollectionReconciler) ensureDefaultSubOperatorConfig(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	socs, err := subOperatorConfigsOf(ctx, r.Reader, oc)
	if err != nil {
		return err
	}
	// Those are deleted with their Subscriptions, and do not say where else the collection is wanted.
	socs = slices.DeleteFunc(socs, func(soc v2beta2.SubOperatorConfig) bool { return olm.IsMadeFor(&soc) })
	if oc.Annotations[annotationDefault] == "" {
		return r.decideDefault(ctx, oc, scope, socs)
	}
	for i := range socs {
		if len(socs) > 1 && untouchedDefault(&socs[i]) {
			if err := r.Client.Delete(ctx, &socs[i]); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the default SubOperatorConfig %q: %w", socs[i].Name, err)
			}
		}
	}
	return nil
}

// decideDefault decides once whether a default is needed: one that a user deletes is not made again.
func (r *OperatorCollectionReconciler) decideDefault(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, socs []v2beta2.SubOperatorConfig) error {
	name := oc.Name + "-soc"
	remaining := slices.IndexFunc(socs, func(soc v2beta2.SubOperatorConfig) bool { return soc.DeletionTimestamp == nil })
	switch {
	case remaining >= 0:
		name = socs[remaining].Name
	case len(socs) > 0:
		return nil // They were an earlier OperatorCollection's. Their removal triggers a reconcile.
	default:
		if err := r.createDefaultSubOperatorConfig(ctx, oc, scope, name); err != nil {
			return err
		}
	}
	before := oc.DeepCopy()
	metav1.SetMetaDataAnnotation(&oc.ObjectMeta, annotationDefault, name)
	return r.Client.Patch(ctx, oc, client.MergeFrom(before), client.FieldOwner(fieldOwner))
}

func (r *OperatorCollectionReconciler) createDefaultSubOperatorConfig(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, name string) error {
	soc := &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: oc.Namespace,
			Labels:      render.Labels(scope.collection),
			Annotations: map[string]string{annotationDefault: "true"},
		},
		Spec: defaultSpec(client.ObjectKeyFromObject(oc)),
	}
	if err := r.Client.Create(ctx, soc, client.FieldOwner(fieldOwner)); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the default SubOperatorConfig %q: %w", soc.Name, err)
	}
	return nil
}

// defaultSpec is the spec of the default SubOperatorConfig of an OperatorCollection.
func defaultSpec(oc client.ObjectKey) v2beta2.SubOperatorConfigSpec {
	return v2beta2.SubOperatorConfigSpec{
		OperatorCollection: oc.Name,
		Mapping:            []v2beta2.NamespaceMapping{{Namespace: oc.Namespace}},
	}
}

// untouchedDefault is a default whose spec is as it was made. Its generation does not tell: a restored object begins with the first.
func untouchedDefault(soc *v2beta2.SubOperatorConfig) bool {
	made := defaultSpec(client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection})
	return soc.Annotations[annotationDefault] == "true" && soc.DeletionTimestamp == nil && equality.Semantic.DeepEqual(soc.Spec, made)
}

func (r *OperatorCollectionReconciler) collectSubOperatorConfigs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	var err error
	scope.configs, err = subOperatorConfigsOf(ctx, r.Client, oc, client.MatchingFields{indexOperatorCollection: oc.Name})
	return err
}

// subOperatorConfigsOf lists the SubOperatorConfigs that name the collection, sorted by name. It takes a reader of live
// objects where they decide what is made or deleted: the cache may lack one that a user made a moment ago.
func subOperatorConfigsOf(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, by ...client.ListOption) ([]v2beta2.SubOperatorConfig, error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, list, append(by, client.InNamespace(oc.Namespace))...); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	socs := slices.DeleteFunc(list.Items, func(soc v2beta2.SubOperatorConfig) bool {
		return soc.Spec.OperatorCollection != oc.Name
	})
	slices.SortFunc(socs, func(a, b v2beta2.SubOperatorConfig) int { return strings.Compare(a.Name, b.Name) })
	return socs, nil
}

// sourceHash identifies where the archive is fetched from and, after a dash, what it is verified with. Credentials are not
// part of it.
func sourceHash(spec *v2beta2.OperatorCollectionSpec) string {
	return shortHash("%q", spec.CollectionURL) + "-" +
		shortHash("%q %q %t", spec.Digest, spec.SignatureSecret, spec.SkipSignatureVerification)
}

func shortHash(format string, args ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return fmt.Sprintf("%x", sum[:8])
}
