package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

const jenkins = "{operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha, scope: public%s}]}"

// csv has the examples of a package that has kind Jenkins.
func csv(examples string) *operatorsv1alpha1.ClusterServiceVersion {
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Name: "jenkins.v1", Annotations: map[string]string{annotationExamples: examples}}}
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "jenkins.jenkins.io", Version: "v1", Kind: "Jenkins"}}
	return csv
}

const examples = `[{"apiVersion": "jenkins.io/v1", "kind": "Jenkins", "metadata": {"name": "example"}, "spec": {"service": {"port": 8080, "type": "ClusterIP"}, "size": 9007199254740993}},
	{"apiVersion": "jenkins.io/v1", "kind": "Jenkins", "metadata": {"name": "nothing"}}, {"kind": "Jenkins"}, "text", null]`

func TestPackages(t *testing.T) {
	const config = "{services: [{name: jenkins, spec: {JENKINS: {service: {port: 8081}}, other: {}}}]}"
	for name, test := range map[string]struct {
		fields, namespace, operand string
		installed                  bool
		want                       string
	}{
		"not installed": {"", "team", "{name: jenkins}, {name: jenkins, kind: Jenkins, apiVersion: jenkins.io/v1, instanceName: own}", false, `
Subscription tools/jenkins-operator: {channel: alpha, installPlanApproval: Automatic, name: jenkins-operator}
OperatorGroup tools/collection-operator-operands: {targetNamespaces: [tools]}`},
		"installed": {"", "team", "{name: jenkins}, {name: jenkins, kind: Jenkins, apiVersion: jenkins.io/v1, instanceName: own}", true, `
Subscription tools/jenkins-operator: {channel: alpha, installPlanApproval: Automatic, name: jenkins-operator}
OperatorGroup tools/collection-operator-operands: {targetNamespaces: [tools]}
Jenkins tools/example: {service: {port: 8081, type: ClusterIP}, size: 9007199254740993}
Jenkins team/own: null`},
		"all fields": {", namespace: ops, sourceName: s, sourceNamespace: sn, installPlanApproval: Manual, startingCSV: c.v1, subscriptionConfig: {env: []}, targetNamespaces: [b, a, b]", "team", "{name: jenkins}", false, `
Subscription ops/jenkins-operator: {channel: alpha, config: {env: []}, installPlanApproval: Manual, name: jenkins-operator, source: s, sourceNamespace: sn, startingCSV: c.v1}
OperatorGroup ops/collection-operator-operands: {targetNamespaces: [a, b]}`},
		"for all namespaces": {", installMode: cluster, namespace: ignored", "team", "{name: jenkins}", false, `
Subscription global/jenkins-operator: {channel: alpha, installPlanApproval: Automatic, name: jenkins-operator}`},
		"not to be installed": {", installMode: no-op", "team", "{name: jenkins}", true, `
Jenkins tools/example: {service: {port: 8081, type: ClusterIP}, size: 9007199254740993}`},
		"a kind of somebody else": {"", "team", "{name: jenkins, kind: Subscription, apiVersion: operators.coreos.com/v1alpha1}", true, `
operand "jenkins": the operator has no kind Subscription in operators.coreos.com/v1alpha1: it has Jenkins`},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource(t, strings.Replace(jenkins, "%s", test.fields, 1), config)
			source.GlobalNamespace = "global"
			if test.installed {
				installed, err := InstalledBy(csv(examples))
				if err != nil {
					t.Fatal(err)
				}
				source.Installed = map[PackageKey]*Installed{{"tools", "jenkins-operator"}: installed}
			}
			got := Of(request(t, test.namespace, "{requests: [{registry: tools, registryNamespace: tools, operands: ["+test.operand+"]}]}"), source)
			if diff := cmp.Diff(test.want, "\n"+strings.Join(described(&got[0]), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// described has a line for each object, with its spec.
func described(o *Operand) []string {
	if o.Problem != nil {
		return []string{o.Problem.Message}
	}
	var objects []Object
	if o.Package != nil {
		objects = append(objects, o.Package.Subscription)
		if !o.Package.Global {
			objects = append(objects, o.Package.Group)
		}
	}
	var lines []string
	for _, object := range append(objects, o.Objects...) {
		text, _ := yaml.Marshal(object.Fields(nil)["spec"])
		lines = append(lines, object.Kind.Kind+" "+object.Key.String()+": "+flow(string(text)))
	}
	return lines
}

// flow writes YAML in one line. It is enough for the maps of these tests.
func flow(text string) string {
	json, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return err.Error()
	}
	return strings.NewReplacer(`"`, "", ":", ": ", ",", ", ").Replace(string(json))
}

// What a package brought stays while it is not known what it has.
func TestUnwantedOfPackages(t *testing.T) {
	source := newSource(t, strings.Replace(jenkins, "%s", "", 1), "{services: [{name: jenkins, spec: {jenkins: {}}}]}")
	installed, err := InstalledBy(csv(examples))
	if err != nil {
		t.Fatal(err)
	}
	source.Installed = map[PackageKey]*Installed{{"tools", "jenkins-operator"}: installed}
	asked := request(t, "tools", "{requests: [{registry: tools, operands: [{name: jenkins}]}]}")
	planned := Of(asked, source)
	p := planned[0].Package
	inventory := []v1alpha1.InventoryEntry{p.Entry(&p.Group, planned[0].ID), p.Entry(&p.Subscription, planned[0].ID), planned[0].Objects[0].Entry(planned[0].ID)}
	if unwanted := Unwanted(inventory, planned); unwanted != nil {
		t.Errorf("got %v", unwanted)
	}
	source.Installed = nil
	if unwanted := Unwanted(inventory, Of(asked, source)); unwanted != nil {
		t.Errorf("not installed any more: got %v", unwanted)
	}
	if unwanted := Unwanted(inventory, nil); len(unwanted) != 3 {
		t.Errorf("got %v", unwanted)
	}
	elsewhere := newSource(t, strings.Replace(jenkins, "%s", ", namespace: ops", 1), "")
	if unwanted := Unwanted(inventory, Of(asked, elsewhere)); len(unwanted) != 2 {
		t.Errorf("in another namespace: got %v", unwanted)
	}
}

func TestData(t *testing.T) {
	source := map[string]any{"spec": map[string]any{"host": "h", "ports": []any{map[string]any{"port": int64(80)}}}}
	for path, want := range map[string]string{
		".spec.host": "h", "http://+.spec.host+:+.spec.ports[0].port": "http://h:80", "text": "text", "": "",
		".spec.none": "error", ".spec.ports[1].port": "error", ".spec.ports[-1]": "error", ".spec": "error", ".spec.host.more": "error", ".": "error", ".spec.ports[x": "error",
	} {
		data, err := (&Object{Paths: map[string]string{"k": path}}).Data(source)
		got := "error"
		if err == nil {
			got = data["k"].(string)
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", path, got, err, want)
		}
	}
}

// A ClusterServiceVersion is written by whoever publishes a package.
func FuzzInstalledBy(f *testing.F) {
	f.Add(examples)
	f.Add(`[{"apiVersion": 1, "kind": {}, "metadata": [], "spec": null}]`)
	f.Add(`{"not": "a list"}`)
	f.Fuzz(func(t *testing.T, text string) {
		installed, err := InstalledBy(csv(text))
		if err != nil {
			return
		}
		for _, example := range installed.Examples {
			if example.Name == "" || example.Kind.Kind == "" || example.Spec == nil {
				t.Errorf("got %+v", example)
			}
		}
	})
}

// An upgrade of a package removes nothing, whatever examples the new version has.
func TestExamplesOfAnUpgrade(t *testing.T) {
	const renamed = `[{"apiVersion": "jenkins.io/v2", "kind": "Jenkins", "metadata": {"name": "other"}, "spec": {"new": true}}]`
	const more = `[{"apiVersion": "jenkins.io/v1", "kind": "Jenkins", "metadata": {"name": "other"}, "spec": {}},
		{"apiVersion": "jenkins.io/v1", "kind": "Jenkins", "metadata": {"name": "example"}, "spec": {}}]`
	const named, notNamed = "{services: [{name: jenkins, spec: {jenkins: {}}}]}", "{services: [{name: jenkins, spec: {other: {}}}]}"
	for name, test := range map[string]struct {
		examples, config string
		want             []string
		unwanted         int
	}{
		"the same":                   {examples, named, []string{"example"}, 0},
		"another name":               {renamed, named, []string{"example"}, 0},
		"one more":                   {more, named, []string{"other", "example"}, 0},
		"none of the kind":           {"[]", named, nil, 0},
		"no examples":                {"", named, nil, 0},
		"not in the config any more": {renamed, notNamed, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource(t, strings.Replace(jenkins, "%s", "", 1), named)
			plans := func(examples string, asked *v1alpha1.OperandRequest) []Operand {
				installed, err := InstalledBy(csv(examples))
				if err != nil {
					t.Fatal(err)
				}
				source.Installed = map[PackageKey]*Installed{{"tools", "jenkins-operator"}: installed}
				return Of(asked, source)
			}
			names := func(o *Operand) []string {
				var names []string
				for _, object := range o.Objects {
					names = append(names, object.Key.Name)
				}
				return names
			}
			asked := request(t, "tools", "{requests: [{registry: tools, operands: [{name: jenkins}]}]}")
			before := plans(examples, asked)
			inventory := []v1alpha1.InventoryEntry{before[0].Objects[0].Entry(before[0].ID)}
			if inventory[0].Package != "tools/jenkins-operator" {
				t.Errorf("got package %q", inventory[0].Package)
			}
			source.Configs = newSource(t, jenkins, test.config).Configs
			asked.Status.Inventory = inventory
			after := plans(test.examples, asked)
			if diff := cmp.Diff(test.want, names(&after[0])); diff != "" {
				t.Error(diff)
			}
			if unwanted := Unwanted(inventory, after); len(unwanted) != test.unwanted {
				t.Errorf("unwanted: %v", unwanted)
			}
			source.Recorded = inventory
			later := plans(test.examples, request(t, "team", "{requests: [{registry: tools, registryNamespace: tools, operands: [{name: jenkins}]}]}"))
			if diff := cmp.Diff(test.want, names(&later[0])); diff != "" {
				t.Errorf("a request that comes later: %s", diff)
			}
		})
	}
}

// To remove an operator, it must be known whether somebody uses it.
func TestNeedsOfPackages(t *testing.T) {
	source := newSource(t, strings.Replace(jenkins, "%s", ", targetNamespaces: [team]", 1), "")
	installed, err := InstalledBy(csv(""))
	if err != nil {
		t.Fatal(err)
	}
	source.Installed = map[PackageKey]*Installed{{"tools", "jenkins-operator"}: installed}
	var got []string
	for _, need := range Needs(Of(request(t, "tools", "{requests: [{registry: tools, operands: [{name: jenkins}]}]}"), source)) {
		got = append(got, need.Verb+" "+need.Kind.Kind+" "+need.Namespace)
	}
	if diff := cmp.Diff([]string{"patch Subscription tools", "list Jenkins team", "list Jenkins tools"}, got); diff != "" {
		t.Error(diff)
	}
	account := types.NamespacedName{Namespace: "system", Name: "account"}
	for want, resources := range map[string][]schema.GroupResource{
		"kubectl create role collection-operator-operands-list-as -n team --verb=list,watch --resource=as.x,bs.y && " +
			"kubectl create rolebinding collection-operator-operands-list-as -n team --role=collection-operator-operands-list-as --serviceaccount=system:account": {{Group: "x", Resource: "as"}, {Group: "y", Resource: "bs"}},
		"kubectl create rolebinding collection-operator-operands -n team --clusterrole=collection-operator-operands-namespace --serviceaccount=system:account": {{Group: sharedGroup, Resource: "files"}},
	} {
		if got := GrantList(account, resources, "team"); got != want {
			t.Errorf("got %s", got)
		}
	}
}
