package suboperatorconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// imported is what the OperatorCollection of a SubOperatorConfig has imported: what is installed, unless a namespace keeps its version.
type imported struct {
	oc         *v2beta2.OperatorCollection
	collection *model.Collection
}

func (is *imported) group() string { return imports.GroupOf(is.oc, is.collection) }

// differs reports whether an installation, which may be nil, has another archive.
func (is *imported) differs(installed *v2beta2.InstallationStatus) bool {
	return installed != nil && installed.Digest != "" && installed.Digest != is.oc.Status.Artifact.Digest
}

// collections read what OperatorCollections have imported, and decide which version of it each namespace gets.
type collections struct {
	client client.Client
	// reader reads live objects.
	reader client.Reader
	// archives are loaded from the store.
	archives *imports.CollectionCache
}

// get reads the OperatorCollection of a SubOperatorConfig.
func (r *collections) get(ctx context.Context, soc *v2beta2.SubOperatorConfig) (*v2beta2.OperatorCollection, error) {
	oc, reader := &v2beta2.OperatorCollection{}, client.Reader(r.client)
	if !meta.IsStatusConditionTrue(soc.Status.Conditions, v2beta2.ConditionReady) {
		reader = r.reader // What it has imported decides whether the SubOperatorConfig becomes Ready.
	}
	return oc, reader.Get(ctx, client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}, oc)
}

// load waits until an OperatorCollection has imported something, and loads it.
func (r *collections) load(oc *v2beta2.OperatorCollection) (*imported, error) {
	if oc.Status.Artifact == nil {
		return nil, status.Waiting(v2beta2.ReasonCollectionNotImported, status.Watched, "OperatorCollection %q is not imported: %s", oc.Name,
			strings.TrimSpace("see its status. "+oc.Status.Message))
	}
	c, err := r.archives.Load(digest.Digest(oc.Status.Artifact.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing, "OperatorCollection %q is being fetched again", oc.Name)
	}
	if err != nil {
		return nil, imports.LoadFailure(err)
	}
	return &imported{oc: oc, collection: c}, nil
}

// awaitCRDs waits until the CRD controller has made every kind of the collection available.
func (r *collections) awaitCRDs(ctx context.Context, is *imported) error {
	missing, err := crdplan.Missing(ctx, r.client, is.collection, is.group())
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.Watched, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	return nil
}

// addLabels sets the labels by which other controllers find the SubOperatorConfigs of a collection.
func (r *collections) addLabels(ctx context.Context, soc *v2beta2.SubOperatorConfig, c *model.Collection) error {
	return apply.AddLabels(ctx, r.client, soc, render.Labels(c), render.LabelManagedBy, render.LabelDomain, render.LabelName)
}

// holds are the reasons why namespaces keep the version that they have.
type holds map[string]error

// decideHolds decides which namespaces keep the version that they have.
func (r *collections) decideHolds(ctx context.Context, soc *v2beta2.SubOperatorConfig, is *imported, mappings []v2beta2.NamespaceMapping) holds {
	held := holds{}
	for _, m := range mappings {
		if err := r.hold(ctx, is, install.Recorded(soc, m.Namespace)); err != nil {
			reason := *status.AsError(err)
			reason.Err = fmt.Errorf("namespace %q keeps its version: %w", m.Namespace, reason.Err)
			held[m.Namespace] = &reason
		}
	}
	return held
}

// hold returns why an installation, which may be nil, keeps the version that it has, or nil.
func (r *collections) hold(ctx context.Context, is *imported, installed *v2beta2.InstallationStatus) error {
	if !is.differs(installed) {
		return nil
	}
	if err := awaitTurn(is.oc, installed.Namespace); err != nil {
		return err
	}
	return r.checkResources(ctx, is, installed)
}

// awaitTurn fails as long as other namespaces get the version first. The OperatorCollection's controller decides that, and writes it to
// status.upgrade: what that does not allow, nobody begins.
func awaitTurn(oc *v2beta2.OperatorCollection, namespace string) error {
	upgrade := oc.Status.Upgrade
	switch {
	case upgrade == nil || upgrade.Digest != oc.Status.Artifact.Digest:
		return status.Waiting(v2beta2.ReasonUpgradePending, status.Watched,
			"it is not decided yet which namespace gets version %s of OperatorCollection %q first", oc.Status.Collection.Version, oc.Name)
	case slices.Contains(upgrade.Namespaces, namespace):
		return nil
	}
	return status.Waiting(upgrade.Reason, status.Watched, "%s", rollout.ProgressOf(oc))
}

// checkResources fails if custom resources in a namespace do not fit the version that the OperatorCollection has imported: they may
// have been created since its controller has checked them.
func (r *collections) checkResources(ctx context.Context, is *imported, installed *v2beta2.InstallationStatus) error {
	if upgradecheck.AcceptsBreaking(is.oc) {
		return nil
	}
	preflighter := upgradecheck.Preflighter{Reader: r.reader, Collections: r.archives}
	report, _, err := preflighter.Check(ctx, digest.Digest(installed.Digest), is.collection, is.group(), nil, []string{installed.Namespace})
	if err != nil {
		return err
	}
	return report.Err()
}

// setContent sets which version an installation is of: the one that the OperatorCollection has imported, or the one that a held
// namespace has. It returns the hold if that one cannot be read: then nothing but the endpoints can follow.
func (r *collections) setContent(ctx context.Context, i *install.Installation, is *imported) error {
	i.Collection, i.Digest = is.collection, digest.Digest(is.oc.Status.Artifact.Digest)
	var lost error
	if i.Held != nil {
		installed := digest.Digest(install.Recorded(i.Owner, i.Namespace).Digest)
		switch c, err := r.archives.Load(installed); {
		case errors.Is(err, fs.ErrNotExist):
			lost = status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing, "namespace %q: the archive of its version is not stored: endpoints are updated alone", i.Namespace)
		case err != nil:
			lost = imports.LoadFailure(err)
		default:
			i.Collection, i.Digest = c, installed
		}
	}
	i.Group = imports.GroupOf(is.oc, i.Collection)
	published, err := r.asPublished(ctx, i.Collection, i.Group)
	if err != nil {
		return err
	}
	i.Collection = published
	return lost
}

// asPublished returns a collection with the defaults that its version has in the cluster: playbooks get them.
func (r *collections) asPublished(ctx context.Context, c *model.Collection, group string) (*model.Collection, error) {
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, resource := range c.Resources {
		name, live := resource.Plural()+"."+group, &apiextensionsv1.CustomResourceDefinition{}
		switch err := r.client.Get(ctx, client.ObjectKey{Name: name}, live); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading CRD %q: %w", name, err)
		default:
			definitions[resource.Kind] = live
		}
	}
	return crd.AsPublished(c, definitions), nil
}
