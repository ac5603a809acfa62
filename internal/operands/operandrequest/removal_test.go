package operandrequest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
)

func entry(operand string, origin v1alpha1.InventoryOrigin, kind, of string) v1alpha1.InventoryEntry {
	return v1alpha1.InventoryEntry{Registry: "tools/tools", Operand: operand, Origin: origin, APIVersion: "v1", Kind: kind, Namespace: "tools", Name: operand, Package: of}
}

// An operator is needed by the resources of its package, whichever operand or request has recorded it.
func TestIsNeeded(t *testing.T) {
	const of = "tools/jenkins"
	subscription := entry("former", v1alpha1.OriginOperator, "Subscription", of)
	csv := entry("former", v1alpha1.OriginOperator, "ClusterServiceVersion", of)
	group := entry("former", v1alpha1.OriginOperator, "OperatorGroup", "")
	mapping := v1alpha1.InventoryEntry{Origin: v1alpha1.OriginOperator, Kind: "SubOperatorConfig", Namespace: "zos", Mapping: "tools", Collection: "oc"}
	for name, test := range map[string]struct {
		e, before v1alpha1.InventoryEntry
		want      bool
	}{
		"a resource of another operand":          {subscription, entry("now", v1alpha1.OriginRequest, "Jenkins", of), true},
		"a resource of an example":               {subscription, entry("now", v1alpha1.OriginConfig, "Jenkins", of), true},
		"a Secret of the operand":                {subscription, entry("former", v1alpha1.OriginConfig, "Secret", ""), true},
		"a resource of another package":          {subscription, entry("now", v1alpha1.OriginRequest, "Jenkins", "other/jenkins"), false},
		"a resource without package":             {subscription, entry("now", v1alpha1.OriginRequest, "DataFile", ""), false},
		"a ClusterServiceVersion goes after":     {subscription, csv, false},
		"the Subscription goes before":           {csv, subscription, true},
		"and so does what needs the group":       {group, csv, true},
		"a resource in the namespace":            {mapping, entry("now", v1alpha1.OriginRequest, "DataFile", ""), true},
		"what installs an operator needs others": {subscription, mapping, false},
	} {
		t.Run(name, func(t *testing.T) {
			inventory := []v1alpha1.InventoryEntry{test.e, test.before}
			s := &scope{request: &v1alpha1.OperandRequest{Status: v1alpha1.OperandRequestStatus{Inventory: inventory}}}
			if got := isNeeded(s, inventory, test.e); got != test.want {
				t.Errorf("got %t", got)
			}
			s.drop(test.before)
			if isNeeded(s, inventory, test.e) {
				t.Error("needed by what is gone")
			}
		})
	}
}

// What is missing in the cache only is not removed, nor what the cache has still.
func TestUnwanted(t *testing.T) {
	e := entry("a", v1alpha1.OriginConfig, "DataFile", "")
	object := plan.Object{Origin: e.Origin, Key: types.NamespacedName{Namespace: e.Namespace, Name: e.Name}}
	object.Kind.Version, object.Kind.Kind = "v1", e.Kind
	wanted, nothing := plan.Operand{ID: plan.IDOf(e), Objects: []plan.Object{object}}, plan.Operand{ID: plan.IDOf(e)}
	for name, test := range map[string]struct {
		cached    plan.Operand
		confirmed []plan.Operand
		want      int
	}{
		"not in the cache, nor live":  {nothing, []plan.Operand{nothing}, 1},
		"not in the cache, but live":  {nothing, []plan.Operand{wanted}, 0},
		"in the cache, but not live":  {wanted, []plan.Operand{nothing}, 0},
		"in the cache, and live":      {wanted, []plan.Operand{wanted}, 0},
		"not in the cache, not asked": {nothing, nil, 1},
		"its registry is gone":        {nothing, []plan.Operand{{ID: plan.IDOf(e), Problem: &plan.Problem{}}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scope{request: &v1alpha1.OperandRequest{}, operands: []*operand{{Operand: test.cached}}, confirmed: test.confirmed}
			s.request.Status.Inventory = []v1alpha1.InventoryEntry{e}
			if got := s.unwanted(); len(got) != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// What another request has is taken over for a new name of its operand only if that one has followed.
func TestAgrees(t *testing.T) {
	operandOf := func(name string) plan.Operand {
		of := &plan.Package{PackageKey: plan.PackageKey{Namespace: "tools", Name: "jenkins"}}
		return plan.Operand{ID: plan.IDOf(entry(name, "", "", "")), Package: of}
	}
	e := entry("now", v1alpha1.OriginOperator, "Subscription", "tools/jenkins")
	for name, test := range map[string]struct {
		operands []plan.Operand
		want     bool
	}{
		"the same name":           {[]plan.Operand{operandOf("now")}, true},
		"the former name":         {[]plan.Operand{operandOf("former")}, false},
		"both names":              {[]plan.Operand{operandOf("now"), operandOf("former")}, false},
		"not wanted":              {nil, false},
		"not known what it wants": {[]plan.Operand{{ID: plan.IDOf(e), Problem: &plan.Problem{}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&other{operands: test.operands}).agrees(e); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// A ClusterServiceVersion that another Subscription has, or will have, is not ours any more.
func TestUses(t *testing.T) {
	csv := v1alpha1.InventoryEntry{Name: "jenkins.v1", Package: "tools/jenkins"}
	for name, test := range map[string]struct {
		of, installed, current string
		want                   bool
	}{
		"installed":           {"other", "jenkins.v1", "jenkins.v2", true},
		"about to be":         {"other", "jenkins.v0", "jenkins.v1", true},
		"not seen by OLM yet": {"jenkins", "", "", true},
		"of another package":  {"other", "other.v1", "other.v1", false},
	} {
		t.Run(name, func(t *testing.T) {
			subscription := &operatorsv1alpha1.Subscription{
				ObjectMeta: metav1.ObjectMeta{Namespace: "tools"}, Spec: &operatorsv1alpha1.SubscriptionSpec{Package: test.of},
				Status: operatorsv1alpha1.SubscriptionStatus{InstalledCSV: test.installed, CurrentCSV: test.current},
			}
			if got := uses(subscription, csv); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// A Subscription stays while resources of its operator are kept, but not for what has not been created.
func TestHasResources(t *testing.T) {
	created := entry("a", v1alpha1.OriginRequest, "Jenkins", "tools/jenkins")
	created.UID = "1"
	subscription := entry("a", v1alpha1.OriginOperator, "Subscription", "tools/jenkins")
	subscription.UID = "2"
	for name, test := range map[string]struct {
		e    v1alpha1.InventoryEntry
		of   string
		want bool
	}{
		"a resource":              {created, "tools/jenkins", true},
		"of another package":      {created, "tools/other", false},
		"not created yet":         {entry("a", v1alpha1.OriginRequest, "Jenkins", "tools/jenkins"), "tools/jenkins", false},
		"the Subscription itself": {subscription, "tools/jenkins", false},
	} {
		if got := hasResources([]v1alpha1.InventoryEntry{test.e}, test.of); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// Copies are removed after what may need them, also if that is not known at the moment.
func TestSortInventory(t *testing.T) {
	secret := entry("a", v1alpha1.OriginBinding, "Secret", "")
	unknown, known := entry("a", v1alpha1.OriginRequest, "DataFile", ""), entry("b", v1alpha1.OriginRequest, "DataFile", "")
	s := &scope{request: &v1alpha1.OperandRequest{Status: v1alpha1.OperandRequestStatus{Inventory: []v1alpha1.InventoryEntry{known, unknown, secret}}}}
	for _, e := range []v1alpha1.InventoryEntry{secret, known} {
		object := plan.Object{Origin: e.Origin, Key: types.NamespacedName{Namespace: e.Namespace, Name: e.Name}}
		object.Kind.Version, object.Kind.Kind = "v1", e.Kind
		s.operands = append(s.operands, &operand{Operand: plan.Operand{ID: plan.IDOf(e), Objects: []plan.Object{object}}})
	}
	s.sortInventory()
	if diff := cmp.Diff([]v1alpha1.InventoryEntry{secret, unknown, known}, s.request.Status.Inventory); diff != "" {
		t.Error(diff)
	}
}
