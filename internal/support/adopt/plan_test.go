package adopt

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return o
}

func definition(name, kind string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	plural, group, _ := strings.Cut(name, ".")
	d := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "crd-uid"}}
	d.Spec.Group, d.Spec.Scope, d.Spec.Names.Plural, d.Spec.Names.Kind = group, apiextensionsv1.NamespaceScoped, plural, kind
	for i, version := range versions {
		d.Spec.Versions = append(d.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: true, Storage: i == 0})
	}
	d.Status.StoredVersions = []string{versions[0]}
	return d
}

// withSpec gives the versions of a CRD a schema with fields of a spec.
func withSpec(d *apiextensionsv1.CustomResourceDefinition, fields ...string) *apiextensionsv1.CustomResourceDefinition {
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, field := range fields {
		spec.Properties[field] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
		}}
	}
	return d
}

const users = "users.suboperator.zoscb.ibm.com"

// racf is the archive of a collection with a kind that has one variable.
func racf(version string) Archive {
	return Archive{File: "racf-" + version + ".tar.gz", Digest: "sha256:1", Collection: &model.Collection{
		Domain: "ibm", Name: "racf", Version: semver.MustParse(version),
		Resources: []model.Resource{{Kind: "User", DisplayName: "User", Finalizer: "delete.yml", Vars: []model.Var{{Name: "size", DisplayName: "Size", Type: model.Integer}}}},
	}}
}

// cluster has one collection of the product with one resource, whose last run was successful.
func cluster(t *testing.T) State {
	t.Helper()
	own, err := config.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return State{
		Own: own, Archives: []Archive{racf("1.0.0")}, Namespaces: map[string]map[string]string{"zos": nil},
		Definitions: []*apiextensionsv1.CustomResourceDefinition{
			definition(collections, "OperatorCollection", "v2beta2"), definition(configs, "SubOperatorConfig", "v2beta2"),
			definition(brokers, "ZosCloudBroker", "v2beta1"), definition(users, "User", "v1minor0patch0"),
		},
		Objects: map[string][]*unstructured.Unstructured{
			brokers: {object(t, `{apiVersion: zoscb.ibm.com/v2beta1, kind: ZosCloudBroker, metadata: {name: broker, namespace: zos}, spec: {license: {accept: true}}}`)},
			collections: {object(t, `{apiVersion: zoscb.ibm.com/v2beta2, kind: OperatorCollection, metadata: {name: racf.ibm.1.0.0, namespace: zos},
				spec: {collectionURL: "https://x.example.com/a.tar.gz", skipSignatureVerification: true}}`)},
			configs: {object(t, `{apiVersion: zoscb.ibm.com/v2beta2, kind: SubOperatorConfig, metadata: {name: racf-soc, namespace: zos},
				spec: {operatorCollection: racf.ibm.1.0.0, credentialType: shared, mapping: [{namespace: zos, zosendpoints: [{name: lpar1, credentialName: logon}]}]},
				status: {customresourcedefinition: [{metadata: {name: `+users+`}}]}}`)},
			users: {object(t, `{apiVersion: suboperator.zoscb.ibm.com/v1minor0patch0, kind: User, metadata: {name: alice, namespace: zos, generation: 2, finalizers: [users.suboperator.zoscb.ibm.com/finalizer]},
				spec: {zosendpoint: lpar1}, status: {conditions: [{type: Successful, status: "True", lastTransitionTime: "2026-01-02T10:00:00Z"}]}}`)},
		},
	}
}

func TestPlanOfAClusterWithoutProblems(t *testing.T) {
	p := New(cluster(t))
	if len(p.Problems) > 0 || p.Adopted {
		t.Fatalf("problems: %q", p.Problems)
	}
	if len(p.Resources) != 1 || p.Resources[0].Runs != "" {
		t.Errorf("resources: %+v", p.Resources)
	}
	if got := p.Changes[0].Want.GetFinalizers(); !slices.Equal(got, []string{"suboperator.zoscb.ibm.com/finalizer"}) {
		t.Errorf("finalizers: %q", got)
	}
	claim := p.Claims[0]
	if claim.Want.Annotations["digest.zoscb.ibm.com/v1minor0patch0"] != "sha256:1" {
		t.Errorf("the version is not that of the archive: %v", claim.Want.Annotations)
	}
	want := map[string]string{"operator-domain": "ibm", "operator-name": "racf", "managed-by": "ibm-zos-cloud-broker"}
	if diff := cmp.Diff(want, claim.Want.Labels); diff != "" || claim.Want.Annotations["zoscb.ibm.com/claimed-by"] != "zos" {
		t.Errorf("claim: %s %v", diff, claim.Want.Annotations)
	}
	for _, d := range p.Definitions {
		if d.Want.Labels[LabelPartOf] != PartOf || d.Want.UID != "crd-uid" {
			t.Errorf("%s: %v", d.Want.Name, d.Want.ObjectMeta)
		}
	}
}

func TestProblems(t *testing.T) {
	deployment := func(name string, labels string, replicas int) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: zos}, spec: {replicas: %d, template: {metadata: {labels: {%s}}}}}`, name, replicas, labels)
	}
	for name, test := range map[string]struct {
		change func(*State)
		want   string
	}{
		"its manager runs":  {func(s *State) { s.Workloads = append(s.Workloads, object(t, deployment("x", "component: manager", 1))) }, "kubectl scale deployment x -n zos --replicas=0"},
		"its operator runs": {func(s *State) { s.Workloads = append(s.Workloads, object(t, deployment("ibm-zoscb-operator", "", 1))) }, "ibm-zoscb-operator runs"},
		"OLM runs its operator": {func(s *State) {
			d := object(t, deployment("ibm-zoscb-operator", "", 1))
			d.SetLabels(map[string]string{"olm.owner": "ibm-zoscb.v2.2.2"})
			s.Workloads = append(s.Workloads, d)
			s.Packages = append(s.Packages, object(t, `{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {name: ibm-zoscb.v2.2.2, namespace: zos},
				spec: {install: {spec: {deployments: [{name: other}, {name: ibm-zoscb-operator}]}}}}`))
		}, `"path":"/spec/install/spec/deployments/1/spec/replicas"`},
		"uploaded": {func(s *State) {
			s.Archives = nil
			unstructured.RemoveNestedField(s.Objects[collections][0].Object, "spec", "collectionURL")
			s.Objects[collections][0].Object["status"] = map[string]any{"config": map[string]any{"collectionPath": "/opt/collections/suboperator/racf/1.0.0/racf.tar.gz"}}
		}, "/opt/collections/suboperator/racf/1.0.0/racf.tar.gz <folder>/racf.tar.gz"},
		"a name that says nothing": {func(s *State) {
			s.Objects[collections][0].SetName("racf")
			s.Objects[configs][0].Object["spec"].(map[string]any)["operatorCollection"] = "racf"
		}, "is neither in its labels nor in its name"},
		"a resource of nobody":   {func(s *State) { delete(s.Objects[configs][0].Object, "status") }, "no SubOperatorConfig names it"},
		"spec that does not fit": {func(s *State) { s.Objects[configs][0].Object["spec"].(map[string]any)["credentialType"] = "other" }, "SubOperatorConfig zos/racf-soc does not fit"},
		"versions of a webhook": {func(s *State) {
			s.Definitions[0].Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
			s.Definitions[0].Status.StoredVersions = []string{"v2beta1", "v2beta2"}
		}, "converts its objects with a webhook"},
		"a release that is too old": {func(s *State) { s.Definitions[0] = definition(collections, "OperatorCollection", "v2beta1") }, "does not serve version v2beta2"},
		"a kind without namespaces": {func(s *State) { s.Definitions[2].Spec.Scope = apiextensionsv1.ClusterScoped }, "CRD zoscloudbrokers.zoscb.ibm.com is of kind ZosCloudBroker and Cluster"},
		"a deletion under way": {func(s *State) {
			s.Objects[users][0].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
		}, "is being deleted, and waits for the product's finalizer"},
		"a run under way": {func(s *State) {
			s.Objects[users][0].Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Running", "status": "True", "reason": "Running"}}}
			s.Workloads = append(s.Workloads, object(t, deployment("ibm-racf-operator", "", 1)))
		}, "its playbook runs"},
		"a webhook for others too": {func(s *State) {
			s.Webhooks = append(s.Webhooks, object(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{rules: [{apiGroups: [zoscb.ibm.com, apps]}]}]}`))
		}, "is for other kinds too"},
		"a webhook of somebody else": {func(s *State) {
			s.Webhooks = append(s.Webhooks, object(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w},
				webhooks: [{clientConfig: {service: {namespace: policies}}, rules: [{apiGroups: [zoscb.ibm.com]}]}]}`))
		}, "not at a Service beside the product's manager"},
		"its manager ends": {func(s *State) {
			s.Workloads = append(s.Workloads, object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ibm-zoscb-operator, namespace: zos}, spec: {replicas: 0, selector: {matchLabels: {a: b}}}}`))
			s.Pods = append(s.Pods, object(t, `{apiVersion: v1, kind: Pod, metadata: {name: ibm-zoscb-operator-1, namespace: zos, labels: {a: b}}, status: {phase: Running}}`))
		}, "kubectl wait --for=delete pod/ibm-zoscb-operator-1 -n zos"},
		"it upgrades itself": {func(s *State) {
			s.Packages = append(s.Packages, object(t, `{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {name: zoscb, namespace: zos}, status: {installedCSV: ibm-zoscb.v2.2.2}}`))
		}, `"installPlanApproval":"Manual"`},
		"resources without an archive": {func(s *State) { s.Archives = nil }, "is only seen with its archive: download https://x.example.com/a.tar.gz"},
		"a field that would be lost": {func(s *State) {
			s.Objects[users][0].Object["spec"].(map[string]any)["secondary"] = map[string]any{"group": "x"}
		}, "User zos/alice: version v1minor0patch0 of its collection does not have spec.secondary"},
		"a value that is not valid": {func(s *State) {
			s.Objects[users][0].Object["spec"].(map[string]any)["size"] = "large"
		}, "User zos/alice does not fit"},
		"a field of an endpoint that would be lost": {func(s *State) {
			s.Objects[collections][0].Object["spec"].(map[string]any)["legacy"] = "x"
		}, "does not know spec.legacy: the field is dropped when the object is next written. To accept that, add --drop-fields"},
		"a version that was not compared": {func(s *State) {
			s.Definitions[3] = withSpec(definition(users, "User", "v9minor0patch0", "v1minor0patch0"), "zosendpoint")
			s.Objects[users][0].Object["spec"].(map[string]any)["secondary"] = "x"
		}, "User zos/alice: version v9minor0patch0 of its collection does not have spec.secondary"},
		"Collection Operator runs already": {func(s *State) {
			s.Workloads = append(s.Workloads, ownManager(t))
		}, "kubectl scale statefulset collection-operator-controller-manager -n collection-operator-system --replicas=0"},
		"a command with text of others": {func(s *State) {
			s.Archives = nil
			unstructured.RemoveNestedField(s.Objects[collections][0].Object, "spec", "collectionURL")
			s.Objects[collections][0].Object["status"] = map[string]any{"config": map[string]any{"collectionPath": "/opt/$(reboot)'.tar.gz"}}
		}, `'/opt/$(reboot)'\''.tar.gz' '<folder>/$(reboot)'\''.tar.gz'`},
		"a consent with text of others": {func(s *State) {
			s.Namespaces["payments"] = map[string]string{annotationAllow: "hr;reboot"}
			s.Objects[configs][0].Object["spec"].(map[string]any)["mapping"] = []any{map[string]any{"namespace": "payments"}}
		}, "allow-mapping-from='hr;reboot,zos'"},
		"a manager whose pods have cut names": {func(s *State) {
			name := "ibm-zoscb-manager-" + strings.Repeat("x", 50)
			s.Workloads = append(s.Workloads, object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: `+name+`, namespace: zos}, spec: {replicas: 0, selector: {matchLabels: {a: b}}}}`))
			s.Pods = append(s.Pods, object(t, `{apiVersion: v1, kind: Pod, metadata: {name: `+name[:58]+`abcde, namespace: zos, labels: {a: b}}, status: {phase: Running}}`))
		}, "kubectl wait --for=delete pod/ibm-zoscb-manager-"},
		"a namespace that does not agree": {func(s *State) {
			s.Namespaces["payments"] = map[string]string{annotationAllow: "hr"}
			s.Objects[configs][0].Object["spec"].(map[string]any)["mapping"] = []any{map[string]any{"namespace": "payments"}}
		}, "kubectl annotate --overwrite namespace payments zoscb.ibm.com/allow-mapping-from=hr,zos"},
	} {
		t.Run(name, func(t *testing.T) {
			s := cluster(t)
			test.change(&s)
			p := New(s)
			if !strings.Contains(strings.Join(p.Problems, "\n"), test.want) {
				t.Errorf("got %q", p.Problems)
			}
		})
	}
}

func TestAdoptionIsContinuedWithItsOwnBackup(t *testing.T) {
	s := cluster(t)
	s.Definitions[3] = New(s).Claims[0].Want
	if p := New(s); len(p.Problems) != 1 || !strings.Contains(p.Problems[0], "name that folder with --backup") {
		t.Errorf("%q", p.Problems)
	}
	s.HasBackup = true
	if p := New(s); len(p.Problems) > 0 {
		t.Errorf("%q", p.Problems)
	}
}

func TestResourceThatNoOperatorSees(t *testing.T) {
	s := cluster(t)
	s.Objects[users][0].SetNamespace("hr")
	if p := New(s); !strings.Contains(strings.Join(p.Notices, "\n"), "User hr/alice: no SubOperatorConfig maps its namespace") {
		t.Errorf("%q", p.Notices)
	}
}

func TestArchivesOfUploads(t *testing.T) {
	s := cluster(t)
	unstructured.RemoveNestedField(s.Objects[collections][0].Object, "spec", "collectionURL")
	archive, other := racf("1.0.0"), racf("1.1.0")
	s.Archives = []Archive{other, archive}
	p := New(s)
	if len(p.Problems) > 0 || p.Collections[0].Archive.File != "racf-1.0.0.tar.gz" {
		t.Errorf("%q %+v", p.Problems, p.Collections)
	}
	other = racf("1.0.0")
	other.Digest = "sha256:2"
	s.Archives = []Archive{other, archive}
	if p := New(s); !strings.Contains(strings.Join(p.Problems, ""), "different archives") {
		t.Errorf("%q", p.Problems)
	}
}

func TestOperatorsAreRemoved(t *testing.T) {
	s := cluster(t)
	meta := `metadata: {name: %s, namespace: zos, labels: {%s}, annotations: {%s}}, spec: {template: {spec: {serviceAccountName: ibm-racf-operator}}}}`
	for _, o := range []struct{ kind, name, labels, annotations string }{
		{"ServiceAccount", "ibm-racf-operator", "", ""}, {"Deployment", "ibm-racf-operator", "operator-name: racf", ""}, {"Deployment", "ibm-racf-other", "", ""},
		{"Deployment", "ibm-racf-operator", "", "zoscb.ibm.com/suboperatorconfig: zos/racf-soc"},
		{"Role", "ibm-racf-operator", "olm.owner: ibm-racf-operator.v1.0.0", ""}, {"ClusterServiceVersion", "ibm-racf-operator.v1.0.0", "operator-name: racf", ""},
	} {
		made := object(t, fmt.Sprintf(`{apiVersion: v1, kind: `+o.kind+`, `+meta, o.name, o.labels, o.annotations))
		s.Packages = append(s.Packages, made)
	}
	s.Packages = append(s.Packages, object(t, `{apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {name: any, namespace: zos}, status: {installedCSV: ibm-racf-operator.v1.0.0}}`))
	s.Webhooks = append(s.Webhooks, object(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}, webhooks: [{clientConfig: {service: {namespace: zos}}, rules: [{apiGroups: [zoscb.ibm.com]}]}]}`))
	s.Workloads = append(s.Workloads, object(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: ibm-zoscb-operator, namespace: zos}, spec: {replicas: 0}}`))
	want := []string{"ValidatingWebhookConfiguration w", "Subscription zos/any", "ClusterServiceVersion zos/ibm-racf-operator.v1.0.0",
		"Deployment zos/ibm-racf-operator", "ServiceAccount zos/ibm-racf-operator"}
	if diff := cmp.Diff(want, titles(New(s).Remove)); diff != "" {
		t.Error(diff)
	}
}

func TestWhyRuns(t *testing.T) {
	for name, test := range map[string]struct{ status, want string }{
		"successful":                            {`{conditions: [{type: Running, status: "True", reason: Successful}, {type: Successful, status: "True"}]}`, ""},
		"failed":                                {`{conditions: [{type: Failure, status: "True"}, {type: Successful, status: "False"}]}`, "its last run failed"},
		"no status":                             {`{}`, "it has no status"},
		"cut off":                               {`{conditions: [{type: Running, status: "True", reason: Running}, {type: Successful, status: "False"}]}`, "no condition Successful"},
		"of another generation":                 {`{observedGeneration: 1, conditions: [{type: Successful, status: "True"}]}`, "for its generation"},
		"without the condition of today's ones": {`{conditions: [{type: Running, status: "True", reason: Successful}]}`, "no condition Successful"},
	} {
		o := object(t, `{apiVersion: v1, kind: User, metadata: {name: a, generation: 2}, status: `+test.status+`}`)
		if got := whyRuns(o); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestIdentify(t *testing.T) {
	for name, want := range map[string]string{
		"racf.ibm.1.0.0": "ibm/racf 1.0.0", "zos-cics-ts-operator.ibm.1.2.3-rc.1": "ibm/zos-cics-ts-operator 1.2.3-rc.1",
		"a.acme.example.1.0.0": "acme.example/a 1.0.0", "racf": "/ ",
	} {
		id, version := identify(object(t, `{apiVersion: v1, kind: OperatorCollection, metadata: {name: `+name+`}}`))
		if got := id.String() + " " + version; got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestRestored(t *testing.T) {
	s := cluster(t)
	before := s.Objects[users][0]
	before.SetUID("1")
	before.SetAnnotations(map[string]string{"mine": "x", lastApplied: "secret"})
	b := NewBackup(s, New(s), "cluster", time.Unix(0, 0))
	saved := b.Kept
	at := slices.IndexFunc(saved, func(o *unstructured.Unstructured) bool { return o.GetKind() == "User" })
	if text, _ := yaml.Marshal(saved[at]); strings.Contains(string(text), "secret") || strings.Contains(string(text), "spec") {
		t.Errorf("the backup has too much: %s", text)
	}
	after := before.DeepCopy()
	after.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
	after.SetAnnotations(map[string]string{"mine": "x", lastApplied: "secret", "zoscb.ibm.com/run-record": "r"})
	after.Object["status"] = map[string]any{"phase": "Succeeded"}
	after.Object["spec"] = map[string]any{"zosendpoint": "lpar2"}
	got, why := s.Restored(b, saved[at], after)
	want := before.DeepCopy()
	want.Object["spec"] = after.Object["spec"]
	if diff := cmp.Diff(want, got); diff != "" || why != "" {
		t.Errorf("%s %s", diff, why)
	}
	if again, _ := s.Restored(b, saved[at], got); again != nil {
		t.Error("it is restored twice")
	}
	if _, why := s.Restored(b, saved[at], nil); !strings.Contains(why, "deleted") {
		t.Error(why)
	}
}

func TestRestoredSpec(t *testing.T) {
	s := cluster(t)
	before := s.Objects[collections][0]
	before.Object["spec"].(map[string]any)["legacy"] = "x"
	b := NewBackup(s, New(s), "cluster", time.Unix(0, 0))
	at := slices.IndexFunc(b.Kept, func(o *unstructured.Unstructured) bool { return o.GetKind() == "OperatorCollection" })
	after := before.DeepCopy()
	spec := after.Object["spec"].(map[string]any)
	spec["apiGroup"], spec["deletionPolicy"] = "Shared", "Orphan"
	delete(spec, "legacy")
	got, _ := s.Restored(b, b.Kept[at], after)
	if spec := got.Object["spec"].(map[string]any); spec["apiGroup"] != nil || spec["deletionPolicy"] != "Orphan" || spec["legacy"] != "x" {
		t.Errorf("%v", spec)
	}
}

func TestSpecThatWasChangedAfterItsLastRun(t *testing.T) {
	for name, test := range map[string]struct {
		fields, subresource, at string
		want                    bool
	}{
		"after":          {`{"f:spec":{"f:size":{}}}`, "", "2026-01-02T11:00:00Z", true},
		"before":         {`{"f:spec":{"f:size":{}}}`, "", "2026-01-02T09:00:00Z", false},
		"its status":     {`{"f:status":{}}`, "status", "2026-01-02T11:00:00Z", false},
		"its finalizers": {`{"f:metadata":{"f:finalizers":{}}}`, "", "2026-01-02T11:00:00Z", false},
	} {
		s := cluster(t)
		at, err := time.Parse(time.RFC3339, test.at)
		if err != nil {
			t.Fatal(err)
		}
		s.Objects[users][0].SetManagedFields([]metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Subresource: test.subresource, Time: &metav1.Time{Time: at}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(test.fields),
		}})
		if got := strings.Contains(strings.Join(New(s).Notices, "\n"), "User zos/alice: its spec was changed after its last successful run"); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
