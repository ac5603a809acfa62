package customresourcedefinition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// unusedRemover removes CRDs that nobody needs any more.
type unusedRemover struct {
	client client.Client
	reader client.Reader
}

// removeUnused deletes the CRDs of kinds that no OperatorCollection, in whatever namespace, has any more according to what is
// recorded on them, once no custom resource of them is left. As long as a SubOperatorConfig has the collection, its operator
// needs all of them. It reports whether there are such CRDs: what keeps them depends on more than the inputs.
func (r *unusedRemover) removeUnused(ctx context.Context, inputs *crdplan.Inputs, definitions []apiextensionsv1.CustomResourceDefinition) (found bool, err error) {
	for i := range definitions {
		definition := &definitions[i]
		if definition.DeletionTimestamp == nil && crdplan.RecordHolders(definition, inputs.ID, inputs.Collections) {
			if err := r.client.Update(ctx, definition, client.FieldOwner(apply.FieldOwner)); err != nil {
				return false, fmt.Errorf("recording on CRD %q which OperatorCollections have it: %w", definition.Name, err)
			}
		}
	}
	if !slices.ContainsFunc(definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return crd.IsUnused(&d) }) {
		return false, nil
	}
	// They are read live: a CRD of one that the cache lacks yet would be deleted.
	live := &v2beta2.OperatorCollectionList{}
	if err := r.reader.List(ctx, live); err != nil {
		return true, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	claimant, owned := crd.Claimant(definitions), false
	unused := slices.DeleteFunc(slices.Clone(definitions), func(definition apiextensionsv1.CustomResourceDefinition) bool {
		return !crd.IsUnused(&definition) || replacement.IsTakenOver(&definition, live.Items) ||
			slices.ContainsFunc(live.Items, func(oc v2beta2.OperatorCollection) bool {
				has := crdplan.HasCollection(&oc, inputs.ID, claimant)
				owned = owned || has
				return has && crdplan.HasKind(&oc, &definition)
			})
	})
	return true, r.remove(ctx, inputs.ID, unused, owned)
}

// remove deletes unused CRDs without custom resources, unless the collection is owned by no OperatorCollection and installed still.
func (r *unusedRemover) remove(ctx context.Context, id model.ID, unused []apiextensionsv1.CustomResourceDefinition, owned bool) error {
	socs := &v2beta2.SubOperatorConfigList{}
	if len(unused) > 0 && !owned {
		if err := r.reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
	}
	if slices.ContainsFunc(socs.Items, func(soc v2beta2.SubOperatorConfig) bool { return install.RecordedCollection(&soc) == id }) {
		return nil // Their removal triggers a reconcile.
	}
	var kept []string
	existing := &instances.Finder{Client: r.client, Reader: r.reader}
	for i := range unused {
		items, err := existing.ListOf(ctx, &unused[i], "")
		if err == nil && len(items) == 0 {
			err = r.delete(ctx, &unused[i])
		}
		if err != nil {
			return err
		}
		if len(items) > 0 {
			kept = append(kept, unused[i].Name)
		}
	}
	if len(kept) > 0 {
		return status.Waiting(v2beta2.ReasonInstancesExist, intervals.Missing, "CRDs that %s does not have any more are kept for their custom resources: %s", id, strings.Join(kept, ", "))
	}
	return nil
}

func (r *unusedRemover) delete(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition) error {
	if definition.DeletionTimestamp != nil {
		return nil
	}
	err := r.client.Delete(ctx, definition, client.Preconditions{UID: &definition.UID, ResourceVersion: &definition.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting CRD %q: %w", definition.Name, err)
	}
	return nil
}

// awaitReplaced waits until the CRDs of a replaced collection can pass to the one that replaces it.
func awaitReplaced(ctx context.Context, reader client.Reader, plan []crd.Planned, all []v2beta2.OperatorCollection) error {
	for _, planned := range plan {
		if !planned.Passes() {
			continue
		}
		if holders := replacement.OtherHolders(planned.Live, all, func(*v2beta2.OperatorCollection) bool { return false }); len(holders) > 0 {
			return status.Waiting(v2beta2.ReasonReplaced, intervals.Missing, "CRD %q belongs to collection %s as long as these OperatorCollections exist: %s",
				planned.Live.Name, planned.Replaced, replacement.DescribeHolders(holders, "", all))
		}
		socs := &v2beta2.SubOperatorConfigList{}
		if err := reader.List(ctx, socs); err != nil {
			return fmt.Errorf("listing SubOperatorConfigs: %w", err)
		}
		for i := range socs.Items {
			if install.RecordedCollection(&socs.Items[i]) == planned.Replaced {
				// It is one of another collection, which triggers no reconcile of this one.
				return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "waiting until the operator of collection %s is removed by SubOperatorConfig %q",
					planned.Replaced, client.ObjectKeyFromObject(&socs.Items[i]))
			}
		}
	}
	return nil
}
