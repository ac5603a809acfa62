package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestSubOperatorConfigBecomesReady(t *testing.T) {
	r := newRig(t)
	soc := r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonProgressing, "is not available")
	if !slices.Contains(soc.Finalizers, v2beta2.Finalizer) || soc.Labels[render.LabelName] != "things" || soc.Status.Digest != r.oc.Status.Artifact.Digest {
		t.Errorf("finalizers %v, labels %v, digest %s", soc.Finalizers, soc.Labels, soc.Status.Digest)
	}
	r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonProgressing, "is not available")
	r.setAvailable(t, r.home)
	soc = r.becomes(t, metav1.ConditionTrue, v2beta2.ReasonSucceeded, "version 1.0.0 runs in namespace "+r.home)
	if soc.Status.Version != "1.0.0" || soc.Status.ObservedGeneration != soc.Generation || len(soc.Status.Installations) != 1 {
		t.Errorf("got %+v", soc.Status)
	}
	r.writes.Take()
	if r.becomes(t, metav1.ConditionTrue, v2beta2.ReasonSucceeded, "runs"); len(r.writes.Take()) > 0 {
		t.Error("nothing has changed, and something was written")
	}
}

// Whoever waits for Ready must not see it with an archive that does not run yet.
func TestReadyIsTakenBackBeforeAnUpgrade(t *testing.T) {
	r := newRig(t)
	r.installed(t, r.home)
	next := storeArchive(t, r.Collections.Store, "second")
	r.oc.Status.Upgrade = &v2beta2.UpgradeStatus{Digest: next.String(), Total: 1, Namespaces: []string{r.home}}
	r.importArchive(t, next)
	isReady := func() bool {
		soc := &v2beta2.SubOperatorConfig{}
		apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.home, Name: "soc"}, soc))
		return meta.IsStatusConditionTrue(soc.Status.Conditions, v2beta2.ConditionReady)
	}
	written := 0
	r.writing = func(what client.Object) error {
		if _, isStatus := what.(*v2beta2.SubOperatorConfig); !isStatus {
			written++
			if isReady() {
				t.Errorf("%s is written while the SubOperatorConfig is Ready", what.GetName())
			}
		}
		return nil
	}
	r.wrote = func(client.Object) error {
		if isReady() {
			t.Error("a status keeps Ready")
		}
		return nil
	}
	soc := r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonProgressing, "")
	if soc.Status.Digest != next.String() || written == 0 {
		t.Errorf("digest %s, %d objects were written", soc.Status.Digest, written)
	}
	r.wrote = func(client.Object) error { return nil }
	r.setAvailable(t, r.home)
	r.becomes(t, metav1.ConditionTrue, v2beta2.ReasonSucceeded, "runs")
}

// Which namespace gets another version first is for the OperatorCollection to say.
func TestUpgradeWaitsForItsTurn(t *testing.T) {
	r := newRig(t)
	former := r.installed(t, r.home)
	r.importArchive(t, storeArchive(t, r.Collections.Store, "second"))
	soc := r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonUpgradePending, "keeps its version: it is not decided yet")
	if soc.Status.Digest != former.Status.Digest {
		t.Errorf("digest %s", soc.Status.Digest)
	}
	for _, write := range r.writes.Take() {
		if !strings.Contains(write, "/suboperatorconfigs/soc") {
			t.Errorf("it has written: %s", write)
		}
	}
}

func TestUnmappedNamespaceLosesItsOperator(t *testing.T) {
	for name, unmap := range map[string]func(t *testing.T, r *rig, other string){
		"not in the mapping any more": func(t *testing.T, r *rig, _ string) {
			r.patch(t, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q}]}}`, r.home))
		},
		"without consent": func(t *testing.T, r *rig, other string) { r.allow(t, other, "") },
		"even if nothing is imported": func(t *testing.T, r *rig, other string) {
			r.allow(t, other, "")
			r.oc.Status.Artifact = nil
			apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.oc))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			other := r.server.Namespace(t)
			r.allow(t, other, r.home)
			r.patch(t, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q},{"namespace":%q}]}}`, r.home, other))
			r.installed(t, r.home, other)
			unmap(t, r, other)
			soc, err := r.reconcile(t, r.home, "soc")
			apiserver.Must(t, err)
			if deployment := r.deployment(t, other); deployment == nil || deployment.DeletionTimestamp == nil || !mapping.InstalledIn(soc, other) {
				t.Errorf("the operator is not being removed, installed in %v", soc.Status.Installations)
			}
			r.endDeployment(t, other)
			soc, err = r.reconcile(t, r.home, "soc")
			apiserver.Must(t, err)
			if mapping.InstalledIn(soc, other) || r.deployment(t, other) != nil || !mapping.InstalledIn(soc, r.home) || r.deployment(t, r.home).DeletionTimestamp != nil {
				t.Errorf("got %+v", soc.Status.Installations)
			}
		})
	}
}

// A namespace that the manager may not use keeps what it has: an administrator may have left it out by mistake.
func TestNamespaceThatIsNotSelectedKeepsItsOperator(t *testing.T) {
	r := newRig(t)
	other := r.server.Namespace(t)
	r.allow(t, other, r.home)
	r.patch(t, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q},{"namespace":%q}]}}`, r.home, other))
	r.installed(t, r.home, other)
	r.Namespaces = mapping.Selection{r.home}
	r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonNamespaceNotSelected, "does not use namespace")
	if r.deployment(t, other).DeletionTimestamp != nil {
		t.Error("the operator was removed")
	}
	r.patch(t, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q}]}}`, r.home))
	if soc, err := r.reconcile(t, r.home, "soc"); err != nil || !mapping.InstalledIn(soc, other) || r.deployment(t, other).DeletionTimestamp != nil {
		t.Errorf("the operator was removed when it was not mapped any more: %v", err)
	}
}

func TestSecondSubOperatorConfigInstallsNothing(t *testing.T) {
	r := newRig(t)
	r.installed(t, r.home)
	r.newConfig(t, r.home, "second", r.home)
	second, err := r.reconcile(t, r.home, "second")
	apiserver.Must(t, err)
	expectReady(t, second, metav1.ConditionFalse, v2beta2.ReasonMappingConflict, `already has this collection's operator, from SubOperatorConfig "soc"`)
	for _, write := range r.writes.Take() {
		if !strings.Contains(write, "/suboperatorconfigs/second") {
			t.Errorf("it has written: %s", write)
		}
	}
	if len(second.Status.Installations)+len(second.Status.Inventory) > 0 {
		t.Errorf("got %+v", second.Status)
	}
}

// Custom resources need their operator until their finalizer playbooks have run.
func TestFinalizerWaits(t *testing.T) {
	r := newRig(t)
	r.installed(t, r.home)
	thing := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"zosendpoint": "lpar1"}}}
	thing.SetGroupVersionKind(schema.GroupVersionKind{Group: model.Group, Version: "v1minor0patch0", Kind: "Thing"})
	thing.SetNamespace(r.home)
	thing.SetName("a")
	apiserver.Must(t, r.server.Client.Create(t.Context(), thing))
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "soc"}}
	apiserver.Must(t, errors.Join(r.server.Client.Delete(t.Context(), r.oc), r.server.Client.Delete(t.Context(), soc)))

	soc = r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonCollectionTerminating, "the operator is kept until")
	if !slices.Contains(soc.Finalizers, v2beta2.Finalizer) || r.deployment(t, r.home).DeletionTimestamp != nil {
		t.Error("the operator is removed before its custom resources")
	}
	apiserver.Must(t, r.server.Client.Delete(t.Context(), thing))
	soc = r.becomes(t, metav1.ConditionFalse, v2beta2.ReasonTerminating, "waiting until Deployment")
	if !slices.Contains(soc.Finalizers, v2beta2.Finalizer) {
		t.Error("the finalizer does not wait for the operator")
	}
	r.endDeployment(t, r.home)
	if soc, err := r.reconcile(t, r.home, "soc"); err != nil || soc != nil {
		t.Errorf("it is still there: %v", err)
	}
	secrets := &corev1.SecretList{}
	if apiserver.Must(t, r.server.Client.List(t.Context(), secrets, client.InNamespace(r.home))); len(secrets.Items) > 0 {
		t.Errorf("%s is still there", secrets.Items[0].Name)
	}
}

// What is not known keeps the operator, and the finalizer.
func TestSubOperatorConfigAfterAFailure(t *testing.T) {
	r := newRig(t)
	r.installed(t, r.home)
	away := errors.New("the API server is away")
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "soc"}}
	apiserver.Must(t, r.server.Client.Delete(t.Context(), soc))
	for _, what := range []string{"OperatorCollection things", "Deployment " + operator} {
		r.reading = func(is string) error {
			if is == what {
				return away
			}
			return nil
		}
		soc, err := r.reconcile(t, r.home, "soc")
		if soc == nil || !slices.Contains(soc.Finalizers, v2beta2.Finalizer) || !errors.Is(err, away) {
			t.Errorf("%s cannot be read: %v", what, err)
		}
	}
	if r.deployment(t, r.home).DeletionTimestamp != nil {
		t.Error("the operator was removed")
	}
}
