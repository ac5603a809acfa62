package controller_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/conflict"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestNeighbors(t *testing.T) {
	server := apiserver.Shared(t)
	apiserver.Must(t, conflict.CheckNeighbors(t.Context(), server.Client))
	faults := &apiserver.Faults{}
	faults.Set("list CustomResourceDefinition", errAway)
	if err := conflict.CheckNeighbors(t.Context(), faults.Around(server.Client, "")); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	beside := interceptor.NewClient(server.Client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			all := list.(*apiextensionsv1.CustomResourceDefinitionList)
			for _, name := range []string{"theirs", "other"} {
				all.Items = append(all.Items, apiextensionsv1.CustomResourceDefinition{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: v2beta2.GroupVersion.Group},
				})
			}
			return err
		},
	})
	if err := conflict.CheckNeighbors(t.Context(), beside); err == nil || !strings.Contains(err.Error(), "other, theirs: remove that product first") {
		t.Errorf("got %v", err)
	}
}

func TestPredecessor(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, faults := server.Namespace(t), &apiserver.Faults{}
	apiserver.Must(t, conflict.CheckPredecessor(t.Context(), server.Client, namespace))
	for name, label := range map[string]string{"earlier": "", "of OLM": v2beta2.ManagerLabelValue} {
		labels := map[string]string{"a": "b"}
		if label != "" {
			labels[v2beta2.ManagerLabel] = label
		}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "collection-operator-controller-manager"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
				},
			},
		}
		apiserver.Must(t, server.Client.Create(t.Context(), deployment))
		if err := conflict.CheckPredecessor(t.Context(), server.Client, namespace); (err == nil) != (label != "") {
			t.Errorf("%s: %v", name, err)
		}
		apiserver.Must(t, server.Client.Delete(t.Context(), deployment))
	}
	faults.Set("get Deployment", errAway)
	if err := conflict.CheckPredecessor(t.Context(), faults.Around(server.Client, ""), namespace); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}
