package suboperatorconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// decideHolds decides which namespaces keep the version that they have.
func (r *Reconciler) decideHolds(ctx context.Context, s *configScope) error {
	s.holds = map[string]error{}
	for _, m := range s.mappings {
		if err := r.hold(ctx, s, m.Namespace); err != nil {
			held := *status.AsError(err)
			held.Err = fmt.Errorf("namespace %q keeps its version: %w", m.Namespace, held.Err)
			s.holds[m.Namespace] = &held
		}
	}
	return nil
}

// hold returns why the operator in a namespace keeps the version that it has, or nil. It is nil for a namespace without one.
func (r *Reconciler) hold(ctx context.Context, s *configScope, namespace string) error {
	recorded := install.Recorded(s.soc, namespace)
	if !s.differs(recorded) {
		return nil
	}
	for _, check := range []func(context.Context, *configScope, string) error{r.awaitTurn, r.checkResources} {
		if err := check(ctx, s, namespace); err != nil {
			return err
		}
	}
	return nil
}

// differs reports whether an installation, which may be nil, has another archive than the one that the OperatorCollection has imported.
func (s *configScope) differs(recorded *v2beta2.InstallationStatus) bool {
	return recorded != nil && recorded.Digest != "" && recorded.Digest != s.oc.Status.Artifact.Digest
}

// beginUpgrade takes Ready back before the pods of a namespace change: nobody who waits for it may see it with pods of another version.
func (r *Reconciler) beginUpgrade(ctx context.Context, s *configScope) error {
	begins := slices.ContainsFunc(s.mappings, func(m v2beta2.NamespaceMapping) bool {
		return s.holds[m.Namespace] == nil && s.differs(install.Recorded(s.soc, m.Namespace))
	})
	now := &s.soc.Status
	if !begins || !meta.IsStatusConditionTrue(now.Conditions, v2beta2.ConditionReady) {
		return nil
	}
	before := s.soc.DeepCopy()
	waits := status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "version %s is being installed", s.collection.Version)
	status.SetReady(&now.Conditions, s.soc.Generation, waits, "")
	now.ObservedGeneration, now.Message = s.soc.Generation, status.ReadyMessage(now.Conditions)
	return status.Patch(ctx, r.Client, s.soc, before)
}

// setContent sets which version an installation is of: the one that the OperatorCollection has imported, or the one that a held
// namespace has. It returns the hold if that one cannot be read: then nothing but the endpoints can follow.
func (r *Reconciler) setContent(ctx context.Context, s *configScope, i *install.Installation) error {
	i.Collection, i.Digest, i.Held = s.collection, digest.Digest(s.oc.Status.Artifact.Digest), s.holds[i.Namespace]
	var lost error
	if i.Held != nil {
		installed := digest.Digest(install.Recorded(s.soc, i.Namespace).Digest)
		switch c, err := r.Collections.Load(installed); {
		case errors.Is(err, fs.ErrNotExist):
			lost = status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing, "namespace %q: the archive of its version is not stored: endpoints are updated alone", i.Namespace)
		case err != nil:
			lost = imports.LoadFailure(err)
		default:
			i.Collection, i.Digest = c, installed
		}
	}
	i.Group = imports.GroupOf(s.oc, i.Collection)
	published, err := r.asPublished(ctx, i.Collection, i.Group)
	if err != nil {
		return err
	}
	i.Collection = published
	return lost
}

// asPublished returns a collection with the defaults that its version has in the cluster: playbooks get them.
func (r *Reconciler) asPublished(ctx context.Context, c *model.Collection, group string) (*model.Collection, error) {
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, resource := range c.Resources {
		name, live := resource.Plural()+"."+group, &apiextensionsv1.CustomResourceDefinition{}
		switch err := r.Client.Get(ctx, client.ObjectKey{Name: name}, live); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading CRD %q: %w", name, err)
		default:
			definitions[resource.Kind] = live
		}
	}
	return crd.AsPublished(c, definitions), nil
}

// checkResources fails if custom resources in a namespace do not fit the version that the OperatorCollection has imported: they may
// have been created since its controller has checked them.
func (r *Reconciler) checkResources(ctx context.Context, s *configScope, namespace string) error {
	if upgradecheck.AcceptsBreaking(s.oc) {
		return nil
	}
	installed := digest.Digest(install.Recorded(s.soc, namespace).Digest)
	judges := upgradecheck.Preflighter{Reader: r.Reader, Collections: r.Collections}
	report, _, err := judges.Check(ctx, installed, s.collection, imports.GroupOf(s.oc, s.collection), nil, []string{namespace})
	if err != nil {
		return err
	}
	return report.Err()
}

// upgradeBlock returns why custom resources block another version, in a namespace or for the OperatorCollection, or nil.
func (s *configScope) upgradeBlock() error {
	for _, m := range s.mappings {
		if blocked := upgradecheck.UpgradeBlock(s.holds[m.Namespace]); blocked != nil {
			return blocked
		}
	}
	imported := meta.FindStatusCondition(s.oc.Status.Conditions, v2beta2.ConditionImported)
	if imported != nil && imported.Status == metav1.ConditionFalse && imported.Reason == v2beta2.ReasonUpgradeBlocked {
		return fmt.Errorf("OperatorCollection %q: %s", s.oc.Name, imported.Message)
	}
	return nil
}
