package operatorcollection

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// defaults makes the SubOperatorConfig that an OperatorCollection has by default, and removes it beside others.
type defaults struct {
	Client client.Client
	Reader client.Reader
}

// ensureDefaultSubOperatorConfig makes <name>-soc if nothing names the collection when it is imported, and removes an
// untouched one when another SubOperatorConfig does. What is made or deleted is decided by what is live.
func (d *defaults) ensureDefaultSubOperatorConfig(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	isDecided := oc.Annotations[v2beta2.AnnotationDefault] != ""
	if isDecided {
		if err := scope.readConfigs(ctx, oc, d.Client, false); err != nil || len(redundantDefaults(scope.configs)) == 0 {
			return err
		}
	}
	if err := scope.readConfigs(ctx, oc, d.Reader, true); err != nil {
		return err
	}
	if !isDecided {
		return d.decideDefault(ctx, oc, scope)
	}
	for _, soc := range redundantDefaults(scope.configs) {
		if err := d.Client.Delete(ctx, soc, client.Preconditions{UID: &soc.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the default SubOperatorConfig %q: %w", soc.Name, err)
		}
	}
	return scope.readConfigs(ctx, oc, d.Reader, true)
}

// redundantDefaults are the untouched defaults beside other SubOperatorConfigs.
func redundantDefaults(socs []v2beta2.SubOperatorConfig) []*v2beta2.SubOperatorConfig {
	socs = wantedConfigs(socs)
	var redundant []*v2beta2.SubOperatorConfig
	for i := range socs {
		if len(socs) > 1 && untouchedDefault(&socs[i]) {
			redundant = append(redundant, &socs[i])
		}
	}
	return redundant
}

// wantedConfigs leaves out those made for Subscriptions: they are deleted with these, and do not say where else the collection is wanted.
func wantedConfigs(socs []v2beta2.SubOperatorConfig) []v2beta2.SubOperatorConfig {
	return slices.DeleteFunc(slices.Clone(socs), func(soc v2beta2.SubOperatorConfig) bool { return olm.IsMadeFor(&soc) })
}

// decideDefault decides once whether a default is needed: one that a user deletes is not made again.
func (d *defaults) decideDefault(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	name, socs := oc.Name+"-soc", wantedConfigs(scope.configs)
	remaining := slices.IndexFunc(socs, func(soc v2beta2.SubOperatorConfig) bool { return soc.DeletionTimestamp == nil })
	switch {
	case remaining >= 0:
		name = socs[remaining].Name
	case len(socs) > 0:
		return nil // They were an earlier OperatorCollection's. Their removal triggers a reconcile.
	default:
		if err := d.createDefaultSubOperatorConfig(ctx, oc, scope, name); err != nil {
			return err
		}
	}
	before := oc.DeepCopy()
	metav1.SetMetaDataAnnotation(&oc.ObjectMeta, v2beta2.AnnotationDefault, name)
	return apply.PatchMetadata(ctx, d.Client, oc, before)
}

func (d *defaults) createDefaultSubOperatorConfig(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, name string) error {
	soc := &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: oc.Namespace,
			Labels:      render.Labels(scope.collection),
			Annotations: map[string]string{v2beta2.AnnotationDefault: "true"},
		},
		Spec: defaultSpec(client.ObjectKeyFromObject(oc)),
	}
	err := d.Client.Create(ctx, soc, client.FieldOwner(apply.FieldOwner))
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the default SubOperatorConfig %q: %w", soc.Name, err)
	}
	if err == nil {
		scope.configs = append(scope.configs, *soc)
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
	return soc.Annotations[v2beta2.AnnotationDefault] == "true" && soc.DeletionTimestamp == nil && imports.FindSetByOthers(soc).TakenOverBy == "" &&
		equality.Semantic.DeepEqual(soc.Spec, made)
}

// collectSubOperatorConfigs reads the SubOperatorConfigs that decide whether the version is installed. That it is not may be what the
// cache says: what changes is read again. That it is must be live: the cache may still have one that installed the same archive before
// the one in between.
func (d *defaults) collectSubOperatorConfigs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	becomesReady := notInstalled(scope.configs, oc.Status.Artifact.Digest) == nil && !wasReadyWith(oc, scope.configs)
	if becomesReady && !scope.areLive {
		return scope.readConfigs(ctx, oc, d.Reader, true)
	}
	return nil
}

// wasReadyWith reports whether the status says already that the version is installed by these SubOperatorConfigs.
func wasReadyWith(oc *v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig) bool {
	ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady)
	installed := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionInstalled)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == oc.Generation &&
		installed != nil && installed.Message == installedMessage(socs)
}
