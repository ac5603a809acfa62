package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// delete deletes the OperatorCollection with a policy.
func (i *importer) delete(t *testing.T, policy v2beta2.DeletionPolicy) {
	t.Helper()
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.DeletionPolicy = policy })
	apiserver.Must(t, i.server.Client.Delete(t.Context(), i.live(t)))
}

// runOperator makes the Deployment of the operator in a namespace, which the SubOperatorConfig has installed.
func (i *importer) runOperator(t *testing.T, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "operator"}
	apiserver.Must(t, i.server.Client.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: i.id().OperatorName()},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			},
		},
	}))
}

// isGone reconciles the OperatorCollection once more, and reports whether it is gone.
func (i *importer) isGone(t *testing.T) bool {
	t.Helper()
	_, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
	apiserver.Must(t, err)
	err = i.server.Client.Get(t.Context(), i.key, &v2beta2.OperatorCollection{})
	apiserver.Must(t, client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}

// keepConfig gives the SubOperatorConfig its finalizer.
func (i *importer) keepConfig(t *testing.T) *v2beta2.SubOperatorConfig {
	t.Helper()
	soc := i.configs(t)[0]
	soc.Finalizers = []string{v2beta2.Finalizer}
	apiserver.Must(t, i.server.Client.Update(t.Context(), &soc))
	return &soc
}

// Custom resources need their operator, so that they go first, and the CRDs last.
func TestDeletionOfOperatorCollection(t *testing.T) {
	for _, policy := range []v2beta2.DeletionPolicy{v2beta2.DeletionBlock, v2beta2.DeletionFinalize} {
		t.Run(string(policy), func(t *testing.T) {
			i := newImporter(t)
			archive := i.installed(t).Status.Artifact.Digest
			i.runOperator(t, i.home)
			soc, thing := i.keepConfig(t), i.resource(t, i.home, "one", map[string]any{})
			elsewhere := i.resource(t, i.server.Namespace(t), "theirs", map[string]any{})
			i.delete(t, policy)
			if policy == v2beta2.DeletionBlock {
				i.becomes(t, v2beta2.ReasonInstancesExist, i.source.kind+" "+i.home+"/one (or set spec.deletionPolicy")
				if !i.exists(t, thing) {
					t.Error("a custom resource is deleted")
				}
				apiserver.Must(t, i.server.Client.Delete(t.Context(), thing))
			}
			if oc := i.becomes(t, map[v2beta2.DeletionPolicy]string{
				v2beta2.DeletionBlock: v2beta2.ReasonInstancesExist, v2beta2.DeletionFinalize: v2beta2.ReasonFinalizingInstances,
			}[policy], i.home+"/one"); i.exists(t, thing) || !i.exists(t, soc) || !slices.Contains(oc.Finalizers, v2beta2.Finalizer) {
				t.Errorf("got %+v", oc)
			}
			i.end(t, thing)
			i.becomes(t, v2beta2.ReasonTerminating, "waiting for SubOperatorConfigs to be removed: gadgets-soc")
			i.write(t)
			if definition := i.definition(t, i.source.kind); definition == nil || i.exists(t, soc) || !i.exists(t, elsewhere) {
				t.Error("the CRDs go before the operator, or custom resources of others are deleted")
			}
			i.end(t, soc)
			if !i.isGone(t) || i.isStored(t, archive) { // Its CRD is kept for the custom resources of others.
				t.Error("it is still there")
			}
			i.expectEvent(t, "1 custom resources stay without an operator")
			if i.write(t); i.definition(t, i.source.kind) == nil {
				t.Error("the CRD is deleted with a custom resource of others")
			}
			apiserver.Must(t, i.server.Client.Delete(t.Context(), elsewhere))
			i.end(t, elsewhere)
			i.write(t)
			if definition := i.definition(t, i.source.kind); definition != nil && definition.DeletionTimestamp == nil {
				t.Error("the CRD stays")
			}
		})
	}
}

func TestDeletionWaitsForCRDs(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	i.delete(t, v2beta2.DeletionBlock)
	i.becomes(t, v2beta2.ReasonTerminating, "waiting for SubOperatorConfigs to be removed")
	i.becomes(t, v2beta2.ReasonTerminating, "waiting for CRDs to be removed: "+strings.ToLower(i.source.kind)+"s."+model.Group)
	i.write(t)
	apiserver.Await(t, "it is gone", func() bool { return i.isGone(t) })
	if i.definition(t, i.source.kind) != nil {
		t.Error("the CRD is still there")
	}
}

func TestDeletionThatOrphans(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	i.runOperator(t, i.home)
	thing := i.resource(t, i.home, "one", map[string]any{})
	i.delete(t, v2beta2.DeletionOrphan)
	i.becomes(t, v2beta2.ReasonTerminating, "waiting for SubOperatorConfigs to be removed: gadgets-soc")
	if !i.isGone(t) || !i.exists(t, thing) {
		t.Error("it is still there, or the custom resource is not")
	}
	if i.write(t); i.definition(t, i.source.kind) == nil || !i.exists(t, i.definition(t, i.source.kind)) {
		t.Error("the CRD is deleted")
	}
	i.end(t, thing)
}

// Without an operator nobody runs finalizer playbooks: that is told, and what else can be finalized is.
func TestDeletionWithoutAnOperator(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	other := i.server.Namespace(t)
	apiserver.Must(t, i.server.Client.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}},
		client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, mapping.AnnotationAllow, i.home))))
	soc := i.configs(t)[0]
	soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: other})
	apiserver.Must(t, i.server.Client.Update(t.Context(), &soc))
	i.install(t)
	i.runOperator(t, i.home)
	thing, stuck := i.resource(t, i.home, "one", map[string]any{}), i.resource(t, other, "two", map[string]any{})
	i.delete(t, v2beta2.DeletionFinalize)
	oc, _ := i.reconcile(t)
	ready := oc.Status.Message
	if !strings.Contains(ready, other+"/two") || i.exists(t, thing) || !i.exists(t, stuck) {
		t.Errorf("got %s", ready)
	}
	i.end(t, thing)
	i.end(t, stuck)
}

// What is not known deletes nothing, and keeps the finalizer.
func TestDeletionAfterAFailure(t *testing.T) {
	for _, what := range []string{
		"live list OperatorCollection", "live list SubOperatorConfig", "live list CustomResourceDefinition", "live get Namespace", "live get Deployment",
		"delete SubOperatorConfig", "update CustomResourceDefinition", "patch OperatorCollection",
	} {
		t.Run(what, func(t *testing.T) {
			i := newImporter(t)
			i.installed(t)
			i.runOperator(t, i.home)
			thing := i.resource(t, i.home, "one", map[string]any{})
			i.delete(t, v2beta2.DeletionBlock)
			i.faults.Set(what, errAway)
			isEarly := strings.HasPrefix(what, "live ")
			if !isEarly { // These come after the custom resources.
				apiserver.Must(t, i.server.Client.Delete(t.Context(), thing))
				i.end(t, thing)
			}
			var err error
			apiserver.Await(t, "it fails", func() bool {
				_, err = i.reconcile(t)
				_, _ = i.definitions.Reconcile(t.Context(), i.id()) // It may fail, too.
				return err != nil
			})
			if oc := i.live(t); !errors.Is(err, errAway) || !slices.Contains(oc.Finalizers, v2beta2.Finalizer) || isEarly && len(i.configs(t)) == 0 {
				t.Errorf("got %v, %+v", err, oc.Status.Conditions)
			}
			i.faults.Clear()
			if isEarly {
				i.becomes(t, v2beta2.ReasonInstancesExist, "")
				apiserver.Must(t, i.server.Client.Delete(t.Context(), thing))
				i.end(t, thing)
			}
		})
	}
}

// The CRD controller, which reads the cache, would record an OperatorCollection on its CRDs again after the deletion has removed it.
func TestDeletionWaitsForTheCache(t *testing.T) {
	i := newImporter(t)
	i.awaitImport(t)
	apiserver.Must(t, i.server.Client.Delete(t.Context(), i.live(t)))
	for want, answer := range map[error]error{
		errAway: errAway,
		nil:     apierrors.NewNotFound(schema.GroupResource{Resource: "operatorcollections"}, i.key.Name),
	} {
		i.faults.Set("get OperatorCollection", answer)
		i.writes.Take()
		if _, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if writes := i.writes.Take(); len(writes) > 0 {
			t.Errorf("it has written: %v", writes)
		}
	}
}

// Before its operator is installed, no SubOperatorConfig keeps a CRD whose OperatorCollection a cache lacks.
func TestCRDIsKeptBeforeItsOperatorIsInstalled(t *testing.T) {
	i := newImporter(t)
	i.awaitImport(t)
	i.cached = func(list client.ObjectList) {
		if ocs, ok := list.(*v2beta2.OperatorCollectionList); ok {
			ocs.Items = nil
		}
	}
	i.markUnused(t)
	if i.write(t); !i.exists(t, i.definition(t, i.source.kind)) {
		t.Error("the CRD was deleted by what a cache lacks")
	}
}

// A CRD stays while its OperatorCollection is there, also if the cache has lost it, and as long as an operator runs.
func TestCRDIsKept(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	i.cached = func(list client.ObjectList) {
		if ocs, ok := list.(*v2beta2.OperatorCollectionList); ok {
			ocs.Items = slices.DeleteFunc(ocs.Items, func(oc v2beta2.OperatorCollection) bool { return oc.Namespace == i.home })
		}
	}
	i.write(t)
	if definition := i.definition(t, i.source.kind); definition == nil || !i.exists(t, definition) {
		t.Error("the CRD was deleted by what a cache lacks")
	}
	i.markUnused(t)
	if i.write(t); !i.exists(t, i.definition(t, i.source.kind)) {
		t.Error("the CRD was deleted while its OperatorCollection is there")
	}
	i.cached = nil
	i.write(t)
	soc := i.keepConfig(t)
	apiserver.Must(t, i.server.Client.Patch(t.Context(), i.live(t), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	apiserver.Must(t, i.server.Client.Delete(t.Context(), i.live(t)))
	apiserver.Must(t, i.forget(t))
	definition := i.definition(t, i.source.kind)
	i.write(t)
	if !i.exists(t, definition) {
		t.Error("the CRD was deleted while it names an OperatorCollection")
	}
	// Somebody removes the record, as the message of status says.
	i.markUnused(t)
	if i.write(t); !i.exists(t, definition) {
		t.Error("the CRD was deleted while its operator runs")
	}
	i.end(t, soc)
	apiserver.Must(t, client.IgnoreNotFound(i.server.Client.Delete(t.Context(), soc)))
	i.faults.Set("delete CustomResourceDefinition", errAway)
	if _, err := i.definitions.Reconcile(t.Context(), i.id()); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	i.faults.Clear()
	if i.write(t); i.exists(t, definition) {
		t.Error("the CRD was not deleted")
	}
}

// markUnused records on the CRD that no OperatorCollection has it.
func (i *importer) markUnused(t *testing.T) {
	t.Helper()
	definition := i.definition(t, i.source.kind)
	delete(definition.Annotations, render.AnnotationHeldBy)
	definition.Annotations[render.AnnotationUnused] = string(definition.UID) + " 2026-01-02T03:04:05Z"
	apiserver.Must(t, i.server.Client.Update(t.Context(), definition))
}

// forget reconciles an OperatorCollection that is gone.
func (i *importer) forget(t *testing.T) error {
	t.Helper()
	_, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
	return err
}

// CRDs are written as they were planned, or not at all.
func TestCRDIsChangedByOthers(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	definition := i.definition(t, i.source.kind)
	definition.Spec.Names.ShortNames = []string{"changed"}
	delete(definition.Annotations, render.AnnotationClaimedBy)
	apiserver.Must(t, i.server.Client.Update(t.Context(), definition))
	i.faults.Set("update CustomResourceDefinition", apierrors.NewConflict(schema.GroupResource{Resource: "customresourcedefinitions"}, definition.Name, errAway))
	if result, err := i.definitions.Reconcile(t.Context(), i.id()); err == nil && result.RequeueAfter == 0 {
		t.Error("it is not tried again")
	}
	i.faults.Clear()
	i.write(t)
	if definition := i.definition(t, i.source.kind); definition.Annotations[render.AnnotationClaimedBy] != i.home {
		t.Errorf("got %v", definition.Annotations)
	}
	if result, err := i.definitions.Reconcile(t.Context(), model.ID{}); err != nil || result != (ctrl.Result{}) {
		t.Errorf("no collection: %v, %v", result, err)
	}
}
