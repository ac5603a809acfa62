package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// parse decodes a part of a spec.
func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var value T
	if err := yaml.UnmarshalStrict([]byte(text), &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}

func request(t *testing.T, namespace, spec string) *v1alpha1.OperandRequest {
	t.Helper()
	return &v1alpha1.OperandRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"},
		Spec:       parse[v1alpha1.OperandRequestSpec](t, spec),
	}
}

// newSource has OperandRegistry tools/tools with these operators and services, and OperatorCollections tools/zos and other/zos.
func newSource(t *testing.T, operators, services string) *Source {
	t.Helper()
	key := types.NamespacedName{Namespace: "tools", Name: "tools"}
	object := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	source := &Source{
		Registries: map[types.NamespacedName]*v1alpha1.OperandRegistry{key: {
			ObjectMeta: object, Spec: parse[v1alpha1.OperandRegistrySpec](t, operators),
		}},
		Configs:     map[types.NamespacedName]*v1alpha1.OperandConfig{},
		Collections: map[types.NamespacedName]*v2beta2.OperatorCollection{},
	}
	if services != "" {
		source.Configs[key] = &v1alpha1.OperandConfig{ObjectMeta: object, Spec: parse[v1alpha1.OperandConfigSpec](t, services)}
	}
	for _, namespace := range []string{"tools", "other"} {
		source.Collections[types.NamespacedName{Namespace: namespace, Name: "zos"}] = &v2beta2.OperatorCollection{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "zos"},
			Status: v2beta2.OperatorCollectionStatus{Collection: &v2beta2.ImportedCollection{
				Domain: "example", Name: "zos", Version: "1.0.0", APIVersion: "suboperator.zoscb.ibm.com/v1minor0patch0", Kinds: []string{"DataFile", "Region"},
			}},
		}
	}
	return source
}

const tools = "{operators: [{name: zos, collection: {name: zos}, scope: public}, {name: secret, collection: {name: zos}}]}"

// lines describes operands: one line each for the operand, its installs and its objects.
func lines(operands []Operand) []string {
	var all []string
	for _, o := range operands {
		if o.Problem != nil {
			all = append(all, o.ID.String()+": "+o.Problem.Reason+": "+o.Problem.Message)
			continue
		}
		all = append(all, o.ID.String())
		if o.ConfigProblem != nil {
			all = append(all, o.ConfigProblem.Reason+": "+o.ConfigProblem.Message)
		}
		for _, i := range o.Installs {
			all = append(all, "install "+i.Place())
		}
		for _, object := range o.Objects {
			config, _ := yaml.Marshal(object.Config["spec"])
			all = append(all, string(object.Origin)+" "+object.Kind.GroupVersion().String()+" "+object.Kind.Kind+" "+object.Key.String()+" "+strings.TrimSpace(string(config)))
		}
	}
	return all
}

func TestOf(t *testing.T) {
	const ask = "{requests: [{registry: tools, registryNamespace: tools, operands: [%s]}]}"
	for name, test := range map[string]struct {
		operators, services, namespace, operands string
		want                                     []string
	}{
		"only the operator": {tools, "", "team-a", "{name: zos}", []string{"tools/tools/zos", "install tools/zos tools"}},
		"what the config says": {tools, "{services: [{name: zos, spec: {datafile: {path: /a}, REGION: null}}]}", "team-a", "{name: zos}", []string{
			"tools/tools/zos", "install tools/zos tools",
			"Config suboperator.zoscb.ibm.com/v1minor0patch0 Region tools/zos {}",
			"Config suboperator.zoscb.ibm.com/v1minor0patch0 DataFile tools/zos path: /a",
		}},
		"another name in the config": {"{operators: [{name: zos, configName: other, collection: {name: zos}}]}", "{services: [{name: other, spec: {datafile: {}}}]}", "tools", "{name: zos}",
			[]string{"tools/tools/zos", "install tools/zos tools", "Config suboperator.zoscb.ibm.com/v1minor0patch0 DataFile tools/zos {}"}},
		"an operator in another namespace": {"{operators: [{name: zos, namespace: ops, collection: {name: zos}}]}", "{services: [{name: zos, spec: {datafile: {}}}]}", "tools", "{name: zos}",
			[]string{"tools/tools/zos", "install tools/zos ops", "Config suboperator.zoscb.ibm.com/v1minor0patch0 DataFile ops/zos {}"}},
		"what the request says": {tools, "{services: [{name: zos, spec: {datafile: {}}}]}", "team-a",
			"{name: zos, kind: DataFile, apiVersion: suboperator.zoscb.ibm.com/v1minor0patch0, instanceName: a, spec: {size: 9007199254740993}}", []string{
				"tools/tools/zos", "install tools/zos team-a",
				"Request suboperator.zoscb.ibm.com/v1minor0patch0 DataFile team-a/a size: 9007199254740993",
			}},
		"both": {tools, "", "team-a", "{name: zos}, {name: zos, kind: DataFile, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: b}", []string{
			"tools/tools/zos", "install tools/zos team-a", "install tools/zos tools", "Request suboperator.zoscb.ibm.com/v1 DataFile team-a/b null",
		}},
		"a name that is made": {tools, "", "team-a", "{name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1}", []string{
			"tools/tools/zos", "install tools/zos team-a", "Request suboperator.zoscb.ibm.com/v1 Region team-a/team-77f9aecdf61946 null",
		}},
		"a name that is made, in another version": {tools, "", "team-a", "{name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v2}", []string{
			"tools/tools/zos", "install tools/zos team-a", "Request suboperator.zoscb.ibm.com/v2 Region team-a/team-77f9aecdf61946 null",
		}},
		"a collection for the cluster": {"{operators: [{name: zos, installMode: cluster, collection: {name: zos}}]}", "", "tools", "{name: zos}", []string{
			`tools/tools/zos: InvalidOperand: operator "zos": installMode cluster needs packageName: the operator of a collection is installed where it is requested`}},
		"two names that are made": {tools, "", "team-a", "{name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1}, {name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1}", []string{
			`tools/tools/zos: InvalidOperand: operand "zos" specifies Region.suboperator.zoscb.ibm.com "team-a/team-77f9aecdf61946", which operand "zos" specifies, too: give it another name, such as with instanceName`,
		}},
		"one resource of two operands": {tools, "", "tools", "{name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: a}, {name: secret, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v2, instanceName: a}", []string{
			"tools/tools/zos", "install tools/zos tools", "Request suboperator.zoscb.ibm.com/v1 Region tools/a null",
			`tools/tools/secret: InvalidOperand: operand "secret" specifies Region.suboperator.zoscb.ibm.com "tools/a", which operand "zos" specifies, too: give it another name, such as with instanceName`,
		}},
		"a name that the config has twice": {tools, "{services: [{name: zos, resources: [{apiVersion: v1, kind: Secret, name: s}, {apiVersion: v1, kind: Secret, name: s}]}]}", "tools",
			"{name: zos}, {name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: a}", []string{
				"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": operand "zos" specifies Secret "tools/s", which operand "zos" specifies, too: give it another name, such as with instanceName`,
				"install tools/zos tools", "Request suboperator.zoscb.ibm.com/v1 Region tools/a null",
			}},
		"a name of the request's that the config has": {tools, "{services: [{name: zos, resources: [{apiVersion: suboperator.zoscb.ibm.com/v2, kind: Region, name: a}]}]}", "tools",
			"{name: zos}, {name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: a}", []string{
				"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": operand "zos" specifies Region.suboperator.zoscb.ibm.com "tools/a", which operand "zos" specifies, too: give it another name, such as with instanceName`,
				"install tools/zos tools", "Request suboperator.zoscb.ibm.com/v1 Region tools/a null",
			}},
		"a kind of somebody else": {tools, "", "team-a", "{name: zos, kind: Secret, apiVersion: v1, instanceName: a}", []string{
			`tools/tools/zos: InvalidOperand: operand "zos": the operator has no kind Secret in v1: it has DataFile, Region`}},
		"a kind of an operator that is not installed": {"{operators: [{name: zos, installMode: no-op}]}", "", "tools", "{name: zos, kind: A, apiVersion: v1}", []string{
			`tools/tools/zos: InvalidOperand: operand "zos": the operator is not installed, so its kinds are not known`}},
		"a name that is a path": {tools, "", "team-a", "{name: zos/team-b/own}", []string{
			`tools/tools/zos/team-b/own: InvalidOperand: the name of an operand must not have /, but is "zos/team-b/own"`}},
		"a credential of somebody else": {tools, "{services: [{name: zos, resources: [{apiVersion: suboperator.zoscb.ibm.com/v1, kind: Region, name: r, annotations: {zoscb.ibm.com/credential: bob}}]}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": resources[0]: annotation zoscb.ibm.com/credential cannot be set for others`, "install tools/zos tools"}},
		"the token of a ServiceAccount": {tools, "{services: [{name: zos, resources: [{apiVersion: v1, kind: Secret, name: s, data: {type: kubernetes.io/service-account-token}}]}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": resources[0]: a Secret with a token of a ServiceAccount cannot be created`, "install tools/zos tools"}},
		"a template": {tools, "{services: [{name: zos, spec: {datafile: {a: [{b: {templatingValueFrom: {}}}]}}}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": spec.datafile: templatingValueFrom is not supported: write the value, or copy a Secret or ConfigMap with an OperandBindInfo`, "install tools/zos tools"}},
		"resources come first": {tools, "{services: [{name: zos, spec: {datafile: {}}, resources: [{apiVersion: v1, kind: ConfigMap, name: c, data: {data: {a: b}}}]}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", "install tools/zos tools", "Config v1 ConfigMap tools/c null", "Config suboperator.zoscb.ibm.com/v1minor0patch0 DataFile tools/zos {}",
		}},
		"no operator":     {"{operators: [{name: zos, installMode: no-op}]}", "", "tools", "{name: zos}", []string{"tools/tools/zos"}},
		"private, inside": {tools, "", "tools", "{name: secret}", []string{"tools/tools/secret", "install tools/zos tools"}},
		"private, outside": {tools, "", "team-a", "{name: secret, kind: A, apiVersion: v1}", []string{
			`tools/tools/secret: OutOfScope: "secret" is private: only OperandRequests in namespace "tools" may request it, unless its scope in OperandRegistry "tools/tools" is public`}},
		"unknown": {tools, "", "tools", "{name: none}, {name: zos}", []string{
			`tools/tools/none: OperandNotFound: OperandRegistry "tools/tools" does not list an operator "none"`, "tools/tools/zos", "install tools/zos tools"}},
		"neither collection nor package": {"{operators: [{name: p}]}", "", "tools", "{name: p}", []string{`tools/tools/p: InvalidOperand: operator "p" has neither collection nor packageName`}},
		"a package without channel": {"{operators: [{name: p, packageName: p}]}", "", "tools", "{name: p}", []string{
			`tools/tools/p: InvalidOperand: operator "p": packageName needs channel`}},
		"another approval": {"{operators: [{name: p, packageName: p, channel: a, installPlanApproval: manual}]}", "", "tools", "{name: p}", []string{
			`tools/tools/p: InvalidOperand: operator "p": installPlanApproval must be Automatic or Manual, but is "manual"`}},
		"another mode": {"{operators: [{name: p, packageName: p, channel: a, installMode: all}]}", "", "tools", "{name: p}", []string{
			`tools/tools/p: InvalidOperand: operator "p": installMode must be namespace, cluster or no-op, but is "all"`}},
		"the collection of another namespace": {"{operators: [{name: zos, collection: {name: zos, namespace: other}}]}", "", "tools", "{name: zos}", []string{
			`tools/tools/zos: OutOfScope: OperatorCollection "other/zos" does not exist, or does not allow it: its owner can give it the annotation operator.ibm.com/allow-registries-from: tools`}},
		"a kind that the collection does not have": {tools, "{services: [{name: zos, spec: {queue: {}}}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": collection "zos" has no kind "queue": it has DataFile, Region`, "install tools/zos tools"}},
		"a mistake beside a resource of the request": {tools, "{services: [{name: zos, resources: [{apiVersion: v1, kind: ConfigMap, name: c}], spec: {queue: {}}}]}", "tools",
			"{name: zos}, {name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: a}", []string{
				"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": collection "zos" has no kind "queue": it has DataFile, Region`,
				"install tools/zos tools", "Request suboperator.zoscb.ibm.com/v1 Region tools/a null"}},
		"a spec that is a list": {tools, "{services: [{name: zos, spec: {datafile: []}}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": spec.datafile: must be an object, such as {}, but is a list`, "install tools/zos tools"}},
		"data with metadata": {tools, "{services: [{name: zos, resources: [{apiVersion: v1, kind: ConfigMap, name: c, data: {metadata: {}}}]}]}", "tools", "{name: zos}", []string{
			"tools/tools/zos", `InvalidOperand: OperandConfig "tools/tools": service "zos": resources[0]: data must not have metadata`, "install tools/zos tools"}},
		"a kind without version": {tools, "", "tools", "{name: zos, kind: A}", []string{`tools/tools/zos: InvalidOperand: operand "zos": kind A needs apiVersion`}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Of(request(t, test.namespace, strings.Replace(ask, "%s", test.operands, 1)), newSource(t, test.operators, test.services))
			if diff := cmp.Diff(test.want, lines(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOfMissingObjects(t *testing.T) {
	source := newSource(t, tools, "")
	got := Of(request(t, "tools", "{requests: [{registry: none, operands: [{name: zos}]}, {registry: tools, operands: [{name: zos}]}]}"), source)
	if diff := cmp.Diff([]string{`tools/none/zos: RegistryNotFound: OperandRegistry "tools/none" does not exist`, "tools/tools/zos", "install tools/zos tools"}, lines(got)); diff != "" {
		t.Error(diff)
	}
	if !got[1].ConfigMissing {
		t.Error("the OperandConfig is missing")
	}
	other := types.NamespacedName{Namespace: "other", Name: "zos"}
	source.Collections[other].Annotations = map[string]string{v1alpha1.AnnotationAllowRegistries: "team, tools"}
	source.Registries[types.NamespacedName{Namespace: "tools", Name: "tools"}].Spec.Operators[0].Collection.Namespace = "other"
	if got := Of(request(t, "tools", "{requests: [{registry: tools, operands: [{name: zos}]}]}"), source); got[0].Problem != nil || got[0].Installs[0].Collection != other {
		t.Errorf("got %v", lines(got))
	}
}

func TestStringData(t *testing.T) {
	for name, test := range map[string]struct{ data, want string }{
		"moved":          {"{stringData: {a: b, c: d}, data: {a: eA==, e: eA==}}", "{data: {a: Yg==, c: ZA==, e: eA==}}"},
		"nothing else":   {"{stringData: {a: b}, type: t}", "{data: {a: Yg==}, type: t}"},
		"empty":          {"{stringData: null, data: {a: eA==}}", "{data: {a: eA==}}"},
		"a number":       {"{stringData: {a: 1}}", "data.stringData.a must be a text"},
		"a list":         {"{stringData: []}", "data.stringData must be an object"},
		"data as a text": {"{stringData: {a: b}, data: x}", "data.data must be an object"},
	} {
		t.Run(name, func(t *testing.T) {
			operands := Of(request(t, "tools", "{requests: [{registry: tools, operands: [{name: zos}]}]}"),
				newSource(t, tools, "{services: [{name: zos, resources: [{apiVersion: v1, kind: Secret, name: s, data: "+test.data+"}]}]}"))
			if p := operands[0].ConfigProblem; p != nil {
				if !strings.HasSuffix(p.Message, test.want) {
					t.Errorf("got %s", p.Message)
				}
				return
			}
			got := operands[0].Objects[0].Config
			delete(got, "metadata")
			if diff := cmp.Diff(parse[map[string]any](t, test.want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What is not known is not removed.
func TestUnwanted(t *testing.T) {
	source := newSource(t, tools, "{services: [{name: zos, spec: {datafile: {}}}]}")
	both := request(t, "tools", "{requests: [{registry: tools, operands: [{name: zos}, {name: secret, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: a}]}]}")
	planned := Of(both, source)
	var inventory []v1alpha1.InventoryEntry
	for _, o := range planned {
		for _, i := range o.Installs {
			inventory = append(inventory, v1alpha1.InventoryEntry{Registry: o.ID.Registry.String(), Operand: o.ID.Name, Origin: v1alpha1.OriginOperator,
				Kind: "SubOperatorConfig", Namespace: "tools", Name: "soc", Mapping: i.Namespace, Collection: i.Collection.Name})
		}
		for _, object := range o.Objects {
			inventory = append(inventory, object.Entry(o.ID))
		}
	}
	names := func(entries []v1alpha1.InventoryEntry) []string {
		var all []string
		for _, e := range entries {
			all = append(all, e.Operand+" "+e.Kind)
		}
		return all
	}
	empty := newSource(t, tools, "{services: [{name: zos}]}")
	for name, test := range map[string]struct {
		operands []Operand
		want     []string
	}{
		"nothing has changed":           {planned, nil},
		"an operand less":               {planned[:1], []string{"secret Region"}},
		"no operands":                   {nil, []string{"zos SubOperatorConfig", "zos DataFile", "secret SubOperatorConfig", "secret Region"}},
		"taken out of the config":       {Of(both, empty), []string{"zos DataFile"}},
		"no config":                     {Of(both, newSource(t, tools, "")), nil},
		"a mistake in the config":       {Of(both, newSource(t, tools, "{services: [{name: zos, spec: {misspelt: {}}}]}")), nil},
		"not in the registry any more":  {Of(both, newSource(t, "{}", "")), nil},
		"no registry":                   {Of(both, &Source{}), nil},
		"no operator is installed here": {Of(both, newSource(t, strings.ReplaceAll(tools, "name: zos,", "name: zos, installMode: no-op,"), "")), nil},
		"another namespace":             {Of(both, newSource(t, strings.ReplaceAll(tools, "scope: public", "namespace: ops"), "")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, names(Unwanted(inventory, test.operands))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if !Wants(planned, inventory[0]) || Wants(planned[1:], inventory[1]) {
		t.Error("operators are shared by operands, and resources are not")
	}
}

func TestPhase(t *testing.T) {
	for name, test := range map[string]struct{ members, want string }{
		"nothing":     {"[]", "Pending"},
		"running":     {"[{name: a, phase: {operatorPhase: Running}}, {name: b, phase: {operatorPhase: Running, operandPhase: Running}}]", "Running"},
		"failed":      {"[{name: a, phase: {operatorPhase: Installing, operandPhase: Creating}}, {name: b, phase: {operandPhase: Failed}}]", "Failed"},
		"installing":  {"[{name: a, phase: {operatorPhase: Updating}}, {name: b, phase: {operatorPhase: Installing, operandPhase: Creating}}]", "Installing"},
		"updating":    {"[{name: a, phase: {operatorPhase: Updating, operandPhase: Creating}}]", "Updating"},
		"creating":    {"[{name: a, phase: {operatorPhase: Running, operandPhase: Creating}}]", "Creating"},
		"not found":   {"[{name: a, phase: {operatorPhase: Running}}, {name: b, phase: {operatorPhase: Not Found, operandPhase: Not Found}}]", "Pending"},
		"of failures": {"[{name: a, phase: {operatorPhase: Not Found}}, {name: b, phase: {operatorPhase: Failed}}]", "Failed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Phase(parse[[]v1alpha1.Member](t, test.members)); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// What a request has is given to another one that is not known not to want it.
func TestMayWant(t *testing.T) {
	ask := request(t, "tools", "{requests: [{registry: tools, operands: [{name: zos}]}]}")
	other := request(t, "team-a", "{requests: [{registry: tools, registryNamespace: tools, operands: [{name: zos}]}]}")
	planned := Of(ask, newSource(t, tools, "{services: [{name: zos, spec: {datafile: {}}}]}"))
	e := planned[0].Objects[0].Entry(planned[0].ID)
	private := strings.ReplaceAll(tools, "scope: public", "scope: private")
	for name, test := range map[string]struct {
		operators, services string
		want                bool
	}{
		"wanted":                       {tools, "{services: [{name: zos, spec: {datafile: {}}}]}", false},
		"taken out of the config":      {tools, "{services: [{name: zos}]}", false},
		"a mistake in the config":      {tools, "{services: [{name: zos, spec: {misspelt: {}}}]}", true},
		"no config":                    {tools, "", true},
		"a mistake in the registry":    {"{operators: [{name: zos, scope: public}]}", "{services: [{name: zos}]}", true},
		"not in the registry any more": {"{}", "", false},
		"private":                      {private, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MayWant(Of(other, newSource(t, test.operators, test.services)), e); got != test.want {
				t.Errorf("MayWant = %t", got)
			}
		})
	}
}
