package imports

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// collectionWith is an imported OperatorCollection.
func collectionWith(name, digest string) *v2beta2.OperatorCollection {
	oc := &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 2},
		Status:     v2beta2.OperatorCollectionStatus{Artifact: &v2beta2.Artifact{Digest: digest}},
	}
	status.SetCondition(&oc.Status.Conditions, v2beta2.ConditionImported, 2, nil, "")
	return oc
}

func TestPublicationsBringBackWhatChanged(t *testing.T) {
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	p := NewPublications()
	for _, step := range []struct {
		known map[types.NamespacedName]Publication
		back  []string
	}{
		{map[types.NamespacedName]Publication{name("a"): {Digest: "1", Message: "m"}, name("b"): {Digest: "2", Err: errors.New("x")}}, []string{"a", "b"}},
		{map[types.NamespacedName]Publication{name("a"): {Digest: "1", Message: "m"}, name("b"): {Digest: "2", Err: errors.New("x")}}, nil},
		{map[types.NamespacedName]Publication{name("a"): {Digest: "1", Message: "m"}, name("b"): {Digest: "2", Err: errors.New("y")}}, []string{"b"}},
		{map[types.NamespacedName]Publication{name("a"): {Digest: "1", Err: errors.New("x")}}, []string{"a"}},
		{map[types.NamespacedName]Publication{name("a"): {Digest: "1", Message: "m"}, name("b"): {Digest: "2", Message: "m"}}, []string{"a", "b"}},
		{map[types.NamespacedName]Publication{name("a"): {Digest: "3", Message: "m"}, name("b"): {Digest: "2", Message: "n"}}, []string{"a", "b"}},
	} {
		done := make(chan struct{})
		go func() {
			p.Set(context.Background(), step.known)
			close(done)
		}()
		var back []string
		for waiting := true; waiting; {
			select {
			case e := <-p.Changed:
				back = append(back, e.Object.GetName())
			case <-done:
				waiting = false
			}
		}
		slices.Sort(back)
		if diff := cmp.Diff(step.back, back); diff != "" {
			t.Errorf("after %v: %s", step.known, diff)
		}
	}
}

func TestDescribePublished(t *testing.T) {
	published := func(oc *v2beta2.OperatorCollection) string {
		c := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionPublished)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	oc := collectionWith("a", "1")
	p := NewPublications()
	expect := func(when, want string) {
		t.Helper()
		if got := published(oc); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	p.Describe(oc)
	expect("before the first catalog", "")
	p.known = map[types.NamespacedName]Publication{{Namespace: "ns", Name: "a"}: {Digest: "1", Message: "m"}}
	p.Describe(oc)
	expect("in the catalog", "True Succeeded")
	oc.Status.Artifact.Digest = "2"
	p.Describe(oc)
	expect("with another archive", "True Succeeded")
	p.known[types.NamespacedName{Namespace: "ns", Name: "a"}] = Publication{Digest: "2", Err: status.Retry(v2beta2.ReasonBundleTooLarge, errors.New("x"))}
	p.Describe(oc)
	expect("refused", "False BundleTooLarge")
	status.SetCondition(&oc.Status.Conditions, v2beta2.ConditionImported, 2, errors.New("x"), "")
	p.Describe(oc)
	expect("not imported any more", "False CollectionNotImported")
	p = nil
	p.Describe(oc)
	expect("without a catalog", "")
}
