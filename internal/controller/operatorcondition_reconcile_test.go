package controller_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcondition"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestOperatorConditionOfTheManager(t *testing.T) {
	server, writes, faults := apiserver.Shared(t), &apiserver.Writes{}, &apiserver.Faults{}
	scheme, home := withOLM(t, server), server.Namespace(t)
	c, key := newOLMClient(t, scheme, server.Config), client.ObjectKey{Namespace: home, Name: "manager"}
	r := &operatorcondition.Reconciler{
		Client: faults.Around(newOLMClient(t, scheme, writes.Of(server.Config)), ""), Reader: faults.Around(c, "live "), Namespace: home, Name: "manager",
		Namespaces: mapping.Selection{home},
	}
	reconcile := func() (ctrl.Result, error) { return r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}) }
	if _, err := reconcile(); err != nil || len(writes.Take()) > 0 {
		t.Errorf("there is no OperatorCondition: %v", err)
	}
	condition := &operatorsv2.OperatorCondition{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "manager"}}
	apiserver.Must(t, c.Create(t.Context(), condition))
	for _, refused := range []error{errAway, apierrors.NewForbidden(schema.GroupResource{Resource: "operatorconditions"}, "manager", errAway)} {
		faults.Set("patch OperatorCondition", refused)
		if _, err := reconcile(); errors.Is(err, errAway) == apierrors.IsForbidden(refused) {
			t.Errorf("%v: got %v", refused, err)
		}
	}
	faults.Clear()
	expect := func(is metav1.ConditionStatus, text string) {
		t.Helper()
		_, err := reconcile()
		apiserver.Must(t, err)
		apiserver.Must(t, c.Get(t.Context(), key, condition))
		if upgradeable := meta.FindStatusCondition(condition.Spec.Conditions, operatorsv2.Upgradeable); upgradeable == nil || upgradeable.Status != is || !strings.Contains(upgradeable.Message, text) {
			t.Errorf("got %+v", upgradeable)
		}
	}
	expect(metav1.ConditionTrue, "no operator is being upgraded or removed")
	writes.Take()
	if expect(metav1.ConditionTrue, ""); len(writes.Take()) > 0 {
		t.Error("nothing has changed, and something was written")
	}

	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "soc"}, Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "oc"}}
	apiserver.Must(t, c.Create(t.Context(), soc))
	now := metav1.Now()
	soc.Status.Installations = []v2beta2.InstallationStatus{{Namespace: home, Install: v2beta2.InstallDirect, RemovalTime: &now}}
	apiserver.Must(t, c.Status().Update(t.Context(), soc))
	expect(metav1.ConditionFalse, "the operator of SubOperatorConfig")
	if result, err := reconcile(); err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Hour {
		t.Errorf("again after %s, %v", result.RequeueAfter, err)
	}
	for _, what := range []string{"list OperatorCollection", "list SubOperatorConfig"} {
		faults.Set(what, errAway)
		if _, err := reconcile(); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", what, err)
		}
		faults.Clear()
	}
	apiserver.Must(t, c.Delete(t.Context(), soc))
	expect(metav1.ConditionTrue, "")
}
