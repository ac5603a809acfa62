package adopt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatOnlyHasTheNameOfAnOperatorStays(t *testing.T) {
	named := func(kind, name, namespace, more string) string {
		return fmt.Sprintf(`{apiVersion: v1, kind: %s, metadata: {name: %s, namespace: %s%s}}`, kind, name, namespace, more)
	}
	for name, test := range map[string]struct{ object, problem string }{
		"a ServiceAccount":                      {named("ServiceAccount", "ibm-racf-operator", "zos", ""), "kubectl label serviceaccount ibm-racf-operator -n zos operator-name=racf"},
		"a Deployment of another collection":    {named("Deployment", "ibm-racf-operator", "zos", ", labels: {operator-name: other}"), "kubectl label deployment"},
		"a ClusterServiceVersion":               {named("ClusterServiceVersion", "ibm-racf-operator.v9.0.0", "zos", ""), "kubectl label clusterserviceversion"},
		"a Role that says it is OLM's":          {named("Role", "ibm-racf-operator", "zos", ", labels: {olm.owner: none.v1}"), "kubectl label role"},
		"an owner that is not the collection's": {named("Role", "ibm-racf-operator", "zos", ", ownerReferences: [{uid: other}]"), "kubectl label role"},
		"one that says it is not the product's": {named("Deployment", "ibm-racf-operator", "zos", ", labels: {operator-name: racf}, annotations: {zoscb.ibm.com/suboperatorconfig: zos/racf-soc}"), "kubectl annotate deployment ibm-racf-operator -n zos zoscb.ibm.com/suboperatorconfig-"},
		"in a namespace that does not agree":    {named("Deployment", "ibm-racf-operator", "payments", ", labels: {operator-name: racf}"), "kubectl annotate --overwrite namespace payments"},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t)
			s.Namespaces["payments"] = nil
			s.Objects[configs][0].Object["spec"].(map[string]any)["mapping"] = []any{map[string]any{"namespace": "zos"}, map[string]any{"namespace": "payments"}}
			s.Workloads = append(s.Workloads, object(t, test.object))
			p := New(s)
			if len(p.Remove) > 0 || !strings.Contains(strings.Join(p.Problems, "\n"), test.problem) {
				t.Errorf("removed: %q, problems: %q", titles(p.Remove), p.Problems)
			}
		})
	}
}

func TestWhatBelongsToACollectionIsRemoved(t *testing.T) {
	for name, object := range map[string]string{
		"by its owner":   `{kind: Role, metadata: {name: ibm-racf-operator, namespace: zos, ownerReferences: [{uid: soc}]}}`,
		"by its status":  `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: zos}}`,
		"by its label":   `{kind: RoleBinding, metadata: {name: ibm-racf-operator, namespace: zos, labels: {operator-name: racf}}}`,
		"by its pods":    `{kind: Deployment, metadata: {name: ibm-racf-operator, namespace: zos}, spec: {template: {metadata: {labels: {operator-name: racf}}}}}`,
		"in a namespace": `{kind: Role, metadata: {name: ibm-racf-operator, namespace: payments, labels: {operator-name: racf}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t)
			s.Namespaces["payments"] = map[string]string{annotationAllow: "hr, zos"}
			config := s.Objects[configs][0]
			config.SetUID("soc")
			config.Object["spec"].(map[string]any)["mapping"] = []any{map[string]any{"namespace": "zos"}, map[string]any{"namespace": "payments"}}
			config.Object["status"].(map[string]any)["clusterserviceversion"] = map[string]any{"metadata": map[string]any{"name": "ibm-racf-operator.v1.0.0"}}
			s.Accounts = append(s.Accounts, objectOf(t, object))
			if p := New(s); len(p.Remove) != 1 || len(p.Problems) > 0 {
				t.Errorf("removed: %q, problems: %q", titles(p.Remove), p.Problems)
			}
		})
	}
}

func TestWorkloadsOfAVersionAreAwaitedAndNotMadeAgain(t *testing.T) {
	s := cluster(t)
	s.Packages = append(s.Packages, objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: zos, labels: {operator-name: racf}}}`))
	s.Workloads = append(s.Workloads, objectOf(t, `{kind: Deployment, metadata: {name: any, namespace: zos, labels: {olm.owner: ibm-racf-operator.v1.0.0}}}`))
	p := New(s)
	if got := strings.Join(titles(p.Remove), ", "); got != "ClusterServiceVersion zos/ibm-racf-operator.v1.0.0, Deployment zos/any" {
		t.Fatal(got)
	}
	b := &Backup{Removed: p.Remove}
	if got := titles(b.ToRecreate()); !slices.Equal(got, []string{"ClusterServiceVersion zos/ibm-racf-operator.v1.0.0"}) {
		t.Errorf("what OLM makes is made twice: %q", got)
	}
}

func TestSubscriptionBeginsWithTheVersionThatWasInstalled(t *testing.T) {
	subscription := objectOf(t, `{kind: Subscription, metadata: {name: any, namespace: zos}, spec: {name: ibm-racf-operator}, status: {installedCSV: ibm-racf-operator.v1.0.0}}`)
	b := &Backup{Removed: []*unstructured.Unstructured{
		subscription, objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: zos}}`),
		objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: hr}}`),
	}}
	if got := titles(b.ToRecreate()); !slices.Equal(got, []string{"ClusterServiceVersion hr/ibm-racf-operator.v1.0.0", "Subscription zos/any"}) {
		t.Errorf("%q", got)
	}
	if version, _, _ := unstructured.NestedString(b.Recreated(subscription).Object, "spec", "startingCSV"); version != "ibm-racf-operator.v1.0.0" {
		t.Error(version)
	}
}

func TestWhatIsMadeAgainHasNoOwnerThatIsGone(t *testing.T) {
	owned := func(kind, owners string) *unstructured.Unstructured {
		return objectOf(t, `{kind: `+kind+`, metadata: {name: ibm-racf-operator, namespace: zos, uid: "`+kind+`", ownerReferences: [`+owners+`]}}`)
	}
	subscription := objectOf(t, `{kind: Subscription, metadata: {name: any, namespace: zos, uid: s}, status: {installedCSV: ibm-racf-operator.v1.0.0}}`)
	version := objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: zos, uid: v}}`)
	account := owned("ServiceAccount", "{kind: ClusterServiceVersion, uid: v}, {kind: OperatorCollection, uid: oc}")
	role := owned("Role", "{kind: Deployment, uid: Deployment}")
	deployment := owned("Deployment", "")
	b := &Backup{Removed: []*unstructured.Unstructured{subscription, version, deployment, role, account}}
	if got := titles(b.ToRecreate()); !slices.Equal(got, []string{"Role zos/ibm-racf-operator", "Deployment zos/ibm-racf-operator", "Subscription zos/any"}) {
		t.Errorf("%q", got)
	}
	if owners := b.Recreated(role).GetOwnerReferences(); len(owners) > 0 {
		t.Errorf("%v", owners)
	}
	b.Removed = []*unstructured.Unstructured{version, account}
	if owners := b.Recreated(account).GetOwnerReferences(); len(owners) != 1 || owners[0].UID != "oc" {
		t.Errorf("%v", owners)
	}
}

func TestVersionWithoutASubscriptionIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		subscription string
		want         bool
	}{"none": {"ibm-other-operator.v1.0.0", true}, "its own": {"ibm-racf-operator.v1.0.0", false}} {
		s := cluster(t)
		s.Packages = append(s.Packages, objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: zos, labels: {operator-name: racf}}}`),
			objectOf(t, `{kind: Subscription, metadata: {name: any, namespace: zos}, spec: {name: any}, status: {installedCSV: `+test.subscription+`}}`))
		if got := strings.Contains(strings.Join(New(s).Notices, "\n"), "has no Subscription"); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestOwnersOfWhatStays(t *testing.T) {
	for owner, want := range map[string]bool{"operator": true, "version": true, "manager": true, "other": false} {
		s := cluster(t)
		s.Workloads = append(s.Workloads,
			objectOf(t, `{kind: Deployment, metadata: {name: ibm-racf-operator, namespace: zos, uid: operator, labels: {operator-name: racf}}}`),
			objectOf(t, `{kind: Deployment, metadata: {name: ibm-zoscb-operator, namespace: zos, uid: manager}, spec: {replicas: 0}}`),
			objectOf(t, `{kind: Deployment, metadata: {name: mine, namespace: zos, uid: other}}`))
		s.Packages = append(s.Packages, objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-zoscb.v2.2.2, namespace: zos, uid: version}}`))
		s.Objects[users][0].SetOwnerReferences([]metav1.OwnerReference{{Kind: "Any", Name: "any", UID: types.UID(owner)}})
		if got := strings.Contains(strings.Join(New(s).Problems, "\n"), "User zos/alice is owned by Any any, which does not stay"); got != want {
			t.Errorf("%s: %t", owner, got)
		}
	}
}

func TestVersionOfTheProductIsNamed(t *testing.T) {
	s := cluster(t)
	s.Packages = append(s.Packages, objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-zoscb.v2.2.2, namespace: zos}}`))
	if p := New(s); len(p.Problems) > 0 || !strings.Contains(strings.Join(p.Notices, "\n"), "does not install Collection Operator beside it") {
		t.Errorf("%q %q", p.Problems, p.Notices)
	}
}

func TestLeftovers(t *testing.T) {
	s := cluster(t)
	s.Workloads = append(s.Workloads, objectOf(t, `{kind: Deployment, metadata: {name: ibm-zoscb-manager-a, namespace: zos}}`),
		objectOf(t, `{kind: Deployment, metadata: {name: theirs, namespace: zos}, spec: {template: {metadata: {labels: {component: manager}}}}}`))
	s.Packages = append(s.Packages, objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-zoscb.v2.2.2, namespace: zos}}`),
		objectOf(t, `{kind: Subscription, metadata: {name: a, namespace: zos}, status: {installedCSV: ibm-zoscb.v2.2.2}}`))
	want := []string{"kubectl delete subscriptions.operators.coreos.com a -n zos", "kubectl delete clusterserviceversion ibm-zoscb.v2.2.2 -n zos",
		"kubectl delete deployment ibm-zoscb-manager-a -n zos"}
	if got := Leftovers(s); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestRepetitionKnowsWhatItBeganToRemove(t *testing.T) {
	s := cluster(t)
	s.Accounts = append(s.Accounts, objectOf(t, `{kind: ServiceAccount, metadata: {name: ibm-racf-operator, namespace: zos, uid: "7"}}`))
	if p := New(s); len(p.Remove) != 0 || len(p.Problems) != 1 {
		t.Fatalf("removed: %q, problems: %q", titles(p.Remove), p.Problems)
	}
	s.Proven = map[types.UID]bool{"7": true}
	if p := New(s); len(p.Remove) != 1 || len(p.Problems) != 0 {
		t.Errorf("removed: %q, problems: %q", titles(p.Remove), p.Problems)
	}
}
