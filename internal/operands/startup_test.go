package operands_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestNeighbors(t *testing.T) {
	r := newRig(t)
	ctx := ofTestContext(t)
	apiserver.Must(t, cluster.CheckNeighbors(ctx, r.Reader))
	unlabeled := interceptor.NewClient(r.server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			object.SetLabels(nil)
			return err
		},
	})
	if err := cluster.CheckNeighbors(ctx, unlabeled); err == nil || !strings.Contains(err.Error(), `CRD "operandbindinfos.operator.ibm.com" without the label`) {
		t.Errorf("got %v", err)
	}
	theirs, labels := &appsv1.Deployment{}, "{app: a}"
	r.create(t, theirs, r.home, "operand-deployment-lifecycle-manager",
		"{spec: {selector: {matchLabels: "+labels+"}, template: {metadata: {labels: "+labels+"}, spec: {containers: [{name: a, image: registry.invalid/a}]}}}}")
	err := cluster.CheckNeighbors(ctx, r.Reader)
	if err == nil || !strings.Contains(err.Error(), `Deployment "operand-deployment-lifecycle-manager" in namespace "`+r.home+`": remove it first`) {
		t.Errorf("got %v", err)
	}
	r.delete(t, theirs)
	for _, what := range []string{"get CustomResourceDefinition", "list Deployment"} {
		r.faults.Set(what, errAway)
		if err := cluster.CheckNeighbors(ctx, r.Reader); !errors.Is(err, errAway) {
			t.Errorf("%s: got %v", what, err)
		}
		r.faults.Set(what, nil)
	}
}

func TestAccountOfTheProcess(t *testing.T) {
	r := newRig(t)
	got, err := cluster.FindAccount(t.Context(), r.server.NewClient(t, r.server.AsServiceAccount(t, account.Namespace, account.Name)))
	if err != nil || got != account {
		t.Errorf("got %s, %v", got, err)
	}
	got, err = cluster.FindAccount(t.Context(), r.server.NewClient(t, r.server.As("somebody")))
	if err != nil || got.Namespace != "" || got.Name != "somebody" {
		t.Errorf("got %s, %v", got, err)
	}
	r.faults.Set("create SelfSubjectReview", errAway)
	if _, err := cluster.FindAccount(ofTestContext(t), r.Client); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}

func TestGlobalNamespace(t *testing.T) {
	r := newRig(t)
	for name, test := range map[string]struct {
		exist []string
		err   error
		want  string
	}{
		"OpenShift":            {exist: []string{"openshift-operators", "operators"}, want: "openshift-operators"},
		"another cluster":      {exist: []string{"operators"}, want: "operators"},
		"no OLM":               {want: "openshift-operators"},
		"the server is away":   {err: errAway, want: "openshift-operators"},
		"nothing may be known": {err: apierrors.NewForbidden(schema.GroupResource{}, "a", errAway), want: "openshift-operators"},
	} {
		reader := interceptor.NewClient(r.server.Client, interceptor.Funcs{
			Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
				for _, exists := range test.exist {
					if exists == key.Name {
						*object.(*corev1.Namespace) = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: exists}}
						return nil
					}
				}
				if test.err != nil {
					return test.err
				}
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			},
		})
		if got, err := cluster.FindGlobalNamespace(t.Context(), reader); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
