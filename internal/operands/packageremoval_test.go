package operands_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// deletions returns the kinds of what was deleted, in this order.
func deletions(writes []string) string {
	var kinds []string
	for _, write := range ofObjects(writes, "DELETE ") {
		parts := strings.Split(write, "/")
		kinds = append(kinds, parts[len(parts)-2])
	}
	return strings.Join(kinds, " ")
}

func TestPackageIsRemoved(t *testing.T) {
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins)
	s.delete(t, request)
	s.ends(t, request)
	s.expectOperator(t, false)
	if got := deletions(s.writes.Take()); got != "jenkinses subscriptions clusterserviceversions operatorgroups" {
		t.Errorf("it deletes %s", got)
	}
}

// OLM would create a ClusterServiceVersion again whose Subscription exists, and without it nothing ends the resources.
func TestPackageIsRemovedInOrder(t *testing.T) {
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins)
	theirs := s.instance(s.home, "theirs")
	apiserver.Must(t, s.server.Client.Create(t.Context(), theirs))
	s.hold(t, s.example())
	s.hold(t, s.subscription)
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for Jenkins "%s/example"`, s.home))
	s.expectOperator(t, true)
	s.release(t, s.example())
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for Jenkins "%s/theirs"`, s.home))
	s.expectOperator(t, true)
	s.delete(t, theirs)
	for range 2 {
		s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for Subscription "%s/jenkins-operator"`, s.home))
		if !s.exists(t, s.csv) || !s.exists(t, s.group) {
			t.Error("the ClusterServiceVersion or the OperatorGroup goes first")
		}
	}
	s.release(t, s.subscription)
	s.ends(t, request)
	s.expectOperator(t, false)
	if got := deletions(s.writes.Take()); got != "jenkinses subscriptions clusterserviceversions operatorgroups" {
		t.Errorf("it deletes %s", got)
	}
}

// What has come of the Subscription is recorded before that is deleted: nothing else knows it then.
func TestVersionIsRecordedBeforeItsSubscriptionGoes(t *testing.T) {
	s := newCI(t)
	request := s.request(t, s.home, "request", jenkins)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "OLM installs")
	s.installs(t, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded) // Not seen yet.
	s.delete(t, request)
	s.faults.Set("status OperandRequest", errAway)
	if _, err := s.reconcile(t, request); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	s.expectOperator(t, true)
	s.faults.Set("status OperandRequest", nil)
	s.faults.Set("delete ClusterServiceVersion", errAway)
	if _, err := s.reconcile(t, request); !errors.Is(err, errAway) || s.exists(t, s.subscription) || !s.exists(t, s.csv) {
		t.Errorf("got %v", err)
	}
	s.faults.Set("delete ClusterServiceVersion", nil)
	s.ends(t, request)
	s.expectOperator(t, false)
}

func TestPackageThatIsKept(t *testing.T) {
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins, ownJenkins)
	s.patch(t, s.subscription, fmt.Sprintf("{metadata: {labels: {%s: 'true'}}}", v1alpha1.LabelKeep))
	s.delete(t, request)
	s.ends(t, request)
	s.expectOperator(t, true)
	if !s.exists(t, s.example()) || s.exists(t, s.instance(s.home, "own")) {
		t.Error("what the OperandConfig specifies goes, or what the request specifies stays")
	}
}

// An operator stays for whoever uses it.
func TestPackageThatOthersUse(t *testing.T) {
	for name, test := range map[string]struct {
		use     func(*testing.T, *ci)
		remains string
	}{
		"another Subscription": {func(t *testing.T, s *ci) {
			s.delete(t, s.subscription)
			s.subscription.Name = "theirs"
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "theirs", "{spec: {name: jenkins-operator, channel: alpha, source: theirs, sourceNamespace: olm}}")
		}, "jenkinses"},
		"another operator needs the OperatorGroup": {func(t *testing.T, s *ci) {
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "theirs", "{spec: {name: other, channel: alpha, source: theirs, sourceNamespace: olm}}")
		}, "jenkinses subscriptions clusterserviceversions"},
		"the Subscription was created again by somebody else": {func(t *testing.T, s *ci) {
			s.delete(t, s.subscription)
			s.create(t, &operatorsv1alpha1.Subscription{}, s.home, "jenkins-operator", "{spec: {name: jenkins-operator, channel: alpha, source: theirs, sourceNamespace: olm}}")
		}, "jenkinses"},
		"the version was installed again": {func(t *testing.T, s *ci) {
			s.delete(t, s.subscription, s.csv)
			s.csv.UID, s.csv.ResourceVersion = "", ""
			apiserver.Must(t, s.server.Client.Create(t.Context(), s.csv))
		}, "jenkinses"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCI(t)
			request := s.running(t, s.home, "request", jenkins)
			test.use(t, s)
			s.delete(t, request)
			s.ends(t, request)
			if got := deletions(s.writes.Take()); got != test.remains {
				t.Errorf("it deletes %q, want %q", got, test.remains)
			}
		})
	}
}

func TestPackageOfTwoRequests(t *testing.T) {
	s := newCI(t)
	team := s.server.Namespace(t)
	first, second := s.running(t, s.home, "first", jenkins), s.running(t, team, "second", ownJenkins)
	s.hold(t, s.instance(team, "own"))
	s.delete(t, first)
	s.ends(t, first)
	s.expectOperator(t, true)
	if got := strings.Join(inventoryOf(second), "\n"); s.exists(t, s.example()) || !strings.Contains(got, "Operator Subscription") {
		t.Errorf("the inventory is %s", got)
	}
	s.delete(t, second)
	s.fails(t, second, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for Jenkins "%s/own"`, team))
	s.expectOperator(t, true)
	s.release(t, s.instance(team, "own"))
	s.ends(t, second)
	s.expectOperator(t, false)
}

// The last one removes the operator, also if both are deleted.
func TestPackageOfTwoRequestsThatEnd(t *testing.T) {
	s := newCI(t)
	team := s.server.Namespace(t)
	fast, slow := s.running(t, s.home, "fast", jenkins), s.running(t, team, "slow", ownJenkins)
	s.hold(t, s.instance(team, "own"))
	s.delete(t, fast, slow)
	s.fails(t, slow, v1alpha1.ReasonRemovalWaiting, "/own")
	s.ends(t, fast)
	s.expectOperator(t, true)
	s.release(t, s.instance(team, "own"))
	s.ends(t, slow)
	s.expectOperator(t, false)
}

// A Subscription that two requests have keeps its operand until both have followed.
func TestOperandOfAPackageIsRenamed(t *testing.T) {
	s := newCI(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha}, {name: ci, packageName: jenkins-operator, channel: alpha}]}}")
	first, second := s.running(t, s.home, "first", jenkins), s.running(t, s.home, "second", jenkins)
	expectOwner := func(operand string) {
		t.Helper()
		if s.exists(t, s.subscription); s.subscription.Annotations[v1alpha1.AnnotationOperand] != s.home+"/tools/"+operand {
			t.Errorf("got %v", s.subscription.Annotations)
		}
	}
	s.wants(t, first, "{name: ci}")
	s.runs(t, first)
	expectOwner("jenkins")
	s.wants(t, second, "{name: ci}")
	s.runs(t, second)
	expectOwner("ci")
	s.delete(t, first, second)
	s.ends(t, first)
	s.ends(t, second)
	s.expectOperator(t, false)
}

// Whoever may not see who uses an operator does not remove it.
func TestUsersOfAPackageCannotBeSeen(t *testing.T) {
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins)
	s.delete(t, request)
	s.faults.Set("list Jenkins", apierrors.NewForbidden(schema.GroupResource{}, "", errAway))
	s.fails(t, request, v1alpha1.ReasonNotGranted, "kubectl create role collection-operator-operands-list-jenkinses -n "+s.home+" --verb=list,watch --resource=jenkinses.jenkins.example && ")
	s.expectOperator(t, true)
	for _, what := range []string{"list Jenkins", "get Subscription", "get ClusterServiceVersion", "get Namespace"} {
		s.faults.Set(what, errAway)
		if what == "get Namespace" {
			s.faults.Set("list Jenkins", apierrors.NewForbidden(schema.GroupResource{}, "", errAway))
		}
		if _, err := s.reconcile(t, request); err == nil {
			t.Errorf("%s fails, and it goes on", what)
		}
		s.expectOperator(t, true)
		s.faults.Set(what, nil)
	}
	s.faults.Set("list Jenkins", nil)
	s.ends(t, request)
	s.expectOperator(t, false)
}

func TestErrorsOfRemovedPackages(t *testing.T) {
	errForbidden := apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("User %q cannot do it", "system:serviceaccount:"+account.Namespace+":"+account.Name))
	for _, what := range []string{"get Subscription", "get ClusterServiceVersion", "list Subscription", "delete Subscription", "delete OperatorGroup", "get OperatorGroup"} {
		t.Run(what, func(t *testing.T) {
			s := newCI(t)
			request := s.running(t, s.home, "request", jenkins)
			s.delete(t, request, s.example())
			s.faults.Set(what, errForbidden)
			s.fails(t, request, v1alpha1.ReasonNotGranted, "--clusterrole=collection-operator-operands-olm")
			s.faults.Set(what, errAway)
			if _, err := s.reconcile(t, request); !errors.Is(err, errAway) {
				t.Errorf("got %v", err)
			}
			if !s.exists(t, s.group) {
				t.Error("the OperatorGroup is deleted")
			}
			s.faults.Set(what, nil)
			s.ends(t, request)
			s.expectOperator(t, false)
		})
	}
}

// What goes with its namespace is not waited for, though the permissions are gone.
func TestPackageGoesWithItsNamespace(t *testing.T) {
	s := newCI(t)
	request := s.running(t, s.home, "request", jenkins)
	s.deleteNamespace(t, s.home)
	s.delete(t, request)
	errForbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errAway)
	for _, what := range []string{"get Jenkins", "get Subscription", "get ClusterServiceVersion", "get OperatorGroup"} {
		s.faults.Set(what, errForbidden)
	}
	s.ends(t, request)
	if got := deletions(s.writes.Take()); got != "" {
		t.Errorf("it deletes %s", got)
	}
}
