package adopt

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// objectOf is object for any version of an API.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	return object(t, strings.Replace(text, "{", "{apiVersion: v1, ", 1))
}

// ownManager is the manager as it is installed.
func ownManager(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("../../../config/manager/manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return object(t, string(content))
}

func TestInstalled(t *testing.T) {
	const ours = `labels: {operator-domain: ibm, operator-name: racf, managed-by: ibm-zos-cloud-broker}, annotations: {zoscb.ibm.com/suboperatorconfig: zos/racf-soc}`
	for name, test := range map[string]struct {
		object string
		want   int
	}{
		"of the SubOperatorConfig": {`{kind: RoleBinding, metadata: {name: a, namespace: zos, uid: "1", ` + ours + `}}`, 1},
		"of somebody else":         {`{kind: RoleBinding, metadata: {name: a, namespace: zos, uid: "1"}}`, 0},
		"of another one":           {`{kind: RoleBinding, metadata: {name: a, namespace: zos, uid: "1", ` + strings.Replace(ours, "zos/racf", "hr/racf", 1) + `}}`, 0},
		"without labels":           {`{kind: RoleBinding, metadata: {name: a, namespace: zos, uid: "1", annotations: {zoscb.ibm.com/suboperatorconfig: zos/racf-soc}}}`, 0},
		"that the product had":     {`{kind: RoleBinding, metadata: {name: a, namespace: zos, uid: before, ` + ours + `}}`, 0},
		"a CRD":                    {`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a, uid: "1", ` + ours + `}}`, 0},
		"a custom resource":        {`{apiVersion: suboperator.zoscb.ibm.com/v1, kind: User, metadata: {name: a, namespace: zos, uid: "1", ` + ours + `}}`, 0},
		"shared":                   {`{kind: OperatorGroup, metadata: {name: a, namespace: zos, uid: "1", labels: {managed-by: ibm-zos-cloud-broker}}}`, 0},
		"with what OLM made of it": {`{kind: Subscription, metadata: {name: a, namespace: zos, uid: "1", ` + ours + `}, status: {installedCSV: ibm-racf-operator.v1.0.0}}`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t)
			s.Packages = append(s.Packages,
				objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v1.0.0, namespace: zos, uid: "2", labels: {operator-domain: ibm, operator-name: racf, managed-by: ibm-zos-cloud-broker}}}`),
				objectOf(t, `{kind: ClusterServiceVersion, metadata: {name: ibm-racf-operator.v0.9.0, namespace: zos, uid: "3"}}`))
			s.Workloads = append(s.Workloads, objectOf(t, `{kind: Deployment, metadata: {name: d, namespace: zos, uid: "4", labels: {olm.owner: ibm-racf-operator.v1.0.0}}}`))
			b := &Backup{Removed: []*unstructured.Unstructured{objectOf(t, `{kind: RoleBinding, metadata: {name: a, namespace: zos, uid: before}}`)}}
			live := object(t, strings.Replace(test.object, "{kind", "{apiVersion: v1, kind", 1))
			b.Install(s.Installed(b, "zos/racf-soc", live))
			if len(b.Installed) != test.want {
				t.Errorf("%q", titles(b.Installed))
			}
			if slices.ContainsFunc(b.Installed, func(o *unstructured.Unstructured) bool { return o.GetUID() == "" }) {
				t.Error("an object without UID")
			}
		})
	}
}

func TestReferencesThatCannotBeObjects(t *testing.T) {
	s := cluster(t)
	var inventory []any
	for _, name := range []string{"", "a/b", "..", "good"} {
		inventory = append(inventory, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "zos", "name": name})
	}
	inventory = append(inventory, map[string]any{"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "a/b", "name": "c"}, "text")
	s.Objects[configs][0].Object["status"].(map[string]any)["inventory"] = inventory
	if got := s.References(); len(got) != 1 || got[0].Object.GetName() != "good" {
		t.Errorf("%v", got)
	}
}

func TestBackProblems(t *testing.T) {
	const operator = `{kind: Deployment, metadata: {name: ibm-racf-operator, namespace: zos}}`
	for name, test := range map[string]struct {
		change func(*State)
		want   string
	}{
		"nothing": {func(*State) {}, ""},
		"our manager runs": {func(s *State) {
			s.Workloads = append(s.Workloads, ownManager(t))
		}, "kubectl scale statefulset collection-operator-controller-manager -n collection-operator-system --replicas=0"},
		"our manager ends": {func(s *State) {
			manager := ownManager(t)
			manager.Object["spec"].(map[string]any)["replicas"] = int64(0)
			s.Workloads = append(s.Workloads, manager)
			s.Pods = append(s.Pods, objectOf(t, `{kind: Pod, metadata: {name: collection-operator-controller-manager-0, namespace: collection-operator-system, labels: {app.kubernetes.io/name: collection-operator}}}`))
		}, "pod/collection-operator-controller-manager-0 -n collection-operator-system"},
		"a run": {func(s *State) {
			s.Objects[users][0].Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Running", "status": "True", "reason": "Running"}}}
			s.Workloads = append(s.Workloads, objectOf(t, operator))
		}, "its playbook runs"},
		"a deletion": {func(s *State) {
			s.Objects[users][0].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
			s.Objects[users][0].SetFinalizers([]string{render.Finalizer})
		}, "User zos/alice is being deleted"},
		"a deletion of a collection": {func(s *State) {
			s.Objects[collections][0].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
			s.Objects[collections][0].SetFinalizers([]string{ownFinalizers[0]})
		}, "OperatorCollection zos/racf.ibm.1.0.0 is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t)
			test.change(&s)
			got := strings.Join(s.BackProblems(&Backup{}), "\n")
			if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestAdoptedClusterWithAnActiveProduct(t *testing.T) {
	s := cluster(t)
	for _, d := range s.Definitions {
		metav1.SetMetaDataLabel(&d.ObjectMeta, LabelPartOf, PartOf)
	}
	if p := New(s); !p.Adopted || len(p.Problems) > 0 {
		t.Errorf("%v %q", p.Adopted, p.Problems)
	}
	s.Workloads = append(s.Workloads, objectOf(t, `{kind: Deployment, metadata: {name: ibm-zoscb-operator, namespace: zos}}`))
	if p := New(s); !p.Adopted || len(p.Problems) != 1 {
		t.Errorf("%v %q", p.Adopted, p.Problems)
	}
}

func TestBetweenIsNotAdopted(t *testing.T) {
	s := cluster(t)
	s.Definitions[0] = definition(collections, "OperatorCollection", "v2beta2", "v2beta1")
	s.Definitions[0].Status.StoredVersions = []string{"v2beta1", "v2beta2"}
	for _, d := range New(s).Definitions {
		if between := d.Between(); d.Live.Name == collections && (between.Labels[LabelPartOf] != "" || d.Want.Labels[LabelPartOf] != PartOf || len(between.Spec.Versions) != 2) {
			t.Errorf("%v %v", between.Labels, d.Want.Labels)
		}
	}
}

func TestUnknownKindKeepsItsVersions(t *testing.T) {
	s := cluster(t)
	unknown := definition("zoscbprobes.zoscb.ibm.com", "ZoscbProbe", "v1", "v1beta1")
	unknown.Status.StoredVersions = []string{"v1beta1", "v1"}
	unknown.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
	s.Definitions = append(s.Definitions, unknown)
	p := New(s)
	at := slices.IndexFunc(p.Definitions, func(d Definition) bool { return d.Live == unknown })
	if got := len(p.Definitions[at].Between().Spec.Versions); got != 2 || len(p.Problems) > 0 {
		t.Errorf("%d versions, %q", got, p.Problems)
	}
}

func TestBackupOfARepetition(t *testing.T) {
	s := cluster(t)
	resource := s.Objects[users][0]
	resource.SetUID("1")
	first := NewBackup(s, New(s), "cluster", time.Unix(0, 0))
	resource.SetFinalizers([]string{render.Finalizer})
	resource.Object["status"] = map[string]any{"newer": true}
	s.Objects[users] = append(s.Objects[users], resource.DeepCopy())
	s.Objects[users][1].SetUID("2")
	first.Add(NewBackup(s, New(s), "cluster", time.Unix(0, 0)))
	var kept []*unstructured.Unstructured
	for _, o := range first.Kept {
		if o.GetKind() == "User" {
			kept = append(kept, o)
		}
	}
	if len(kept) != 2 || !slices.Equal(kept[0].GetFinalizers(), []string{users + "/finalizer"}) || kept[0].Object["status"].(map[string]any)["newer"] != true {
		t.Errorf("%+v", kept)
	}
}

func TestRestoredKeepsWhatOthersWrote(t *testing.T) {
	s := cluster(t)
	before := s.Objects[users][0]
	b := NewBackup(s, New(s), "cluster", time.Unix(0, 0))
	at := slices.IndexFunc(b.Kept, func(o *unstructured.Unstructured) bool { return o.GetKind() == "User" })
	after := before.DeepCopy()
	after.SetFinalizers([]string{render.Finalizer, "backup.example.com/hold"})
	after.SetLabels(map[string]string{"team": "a", "operator-name": "racf"})
	after.SetAnnotations(map[string]string{"note": "b", "zoscb.ibm.com/run-record": "r"})
	after.Object["status"] = map[string]any{"lastRun": map[string]any{"id": "1"}, "result": "c"}
	got, _ := s.Restored(b, b.Kept[at], after)
	want := before.DeepCopy()
	want.SetFinalizers([]string{users + "/finalizer", "backup.example.com/hold"})
	want.SetLabels(map[string]string{"team": "a"})
	want.SetAnnotations(map[string]string{"note": "b"})
	want.Object["status"] = after.Object["status"]
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	unseen := before.DeepCopy()
	unseen.Object["status"] = map[string]any{"newer": true}
	if got, _ := s.Restored(b, b.Kept[at], unseen); got != nil {
		t.Errorf("a status of the product is written over: %v", got)
	}
}

func TestRestoredNestedField(t *testing.T) {
	s := cluster(t)
	before := s.Objects[configs][0]
	mapping := before.Object["spec"].(map[string]any)["mapping"].([]any)[0].(map[string]any)
	mapping["legacy"] = int64(7)
	b := NewBackup(s, New(s), "cluster", time.Unix(0, 0))
	at := slices.IndexFunc(b.Kept, func(o *unstructured.Unstructured) bool { return o.GetKind() == "SubOperatorConfig" })
	restored := func(change func(map[string]any)) any {
		after := before.DeepCopy()
		mapping := after.Object["spec"].(map[string]any)["mapping"].([]any)[0].(map[string]any)
		delete(mapping, "legacy")
		change(mapping)
		got, _ := s.Restored(b, b.Kept[at], after)
		if got == nil {
			return nil
		}
		return got.Object["spec"].(map[string]any)["mapping"].([]any)[0].(map[string]any)["legacy"]
	}
	if got := restored(func(map[string]any) {}); got != int64(7) {
		t.Errorf("got %v", got)
	}
	if got := restored(func(m map[string]any) { m["namespace"] = "other" }); got != nil {
		t.Errorf("a mapping that was changed is %v", got)
	}
}

func TestFinishedLeavesFormerReleases(t *testing.T) {
	s := cluster(t)
	s.Definitions = append(s.Definitions, definition("packages.zos-go.zpm.zoscb.ibm.com", "Package", "v1"))
	s.Objects["packages.zos-go.zpm.zoscb.ibm.com"] = []*unstructured.Unstructured{
		object(t, `{apiVersion: zos-go.zpm.zoscb.ibm.com/v1, kind: Package, metadata: {name: p, namespace: zos, finalizers: [zos-go.zpm.zoscb.ibm.com/finalizer]}}`),
	}
	if diff := cmp.Diff([]string{"User zos/alice"}, titles(s.ToFinish())); diff != "" {
		t.Error(diff)
	}
}

func TestFinalizerOfAKindWithoutDeletionPlaybook(t *testing.T) {
	s := cluster(t)
	s.Archives[0].Collection.Resources[0].Finalizer = ""
	p := New(s)
	if got := p.Changes[0].Want.GetFinalizers(); len(got) > 0 || len(p.Problems) > 0 {
		t.Errorf("%q %q", got, p.Problems)
	}
}

func TestEditedSince(t *testing.T) {
	s := cluster(t)
	b := NewBackup(s, New(s), "cluster", time.Unix(0, 0))
	live := s.Objects[users][0]
	if got := s.EditedSince(b); len(got) > 0 {
		t.Errorf("unchanged: %q", got)
	}
	live.SetGeneration(3)
	if got := s.EditedSince(b); !slices.Equal(got, []string{"User zos/alice"}) {
		t.Errorf("changed: %q", got)
	}
	live.Object["status"] = map[string]any{"lastRun": map[string]any{"id": "1"}}
	if got := s.EditedSince(b); len(got) > 0 {
		t.Errorf("changed, and its playbook has run: %q", got)
	}
}
