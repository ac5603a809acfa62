package zosendpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

func TestRoundLatency(t *testing.T) {
	for measured, want := range map[time.Duration]string{
		0: "20ms", 34 * time.Millisecond: "20ms", 36 * time.Millisecond: "50ms", 99 * time.Millisecond: "100ms",
		349 * time.Millisecond: "200ms", 351 * time.Millisecond: "500ms", 900 * time.Millisecond: "1s", time.Minute: "10s",
	} {
		if got := roundLatency(measured).String(); got != want {
			t.Errorf("%s: got %s, want %s", measured, got, want)
		}
	}
}

// Latencies vary, and each write of status costs a request and wakes whoever watches.
func TestLatencyIsRecordedWhenItHasChangedForLong(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		recorded string
		measured []time.Duration
		want     string
	}{
		"first":                    {"", []time.Duration{21 * ms}, "20ms"},
		"after a restart":          {"20ms", []time.Duration{200 * ms}, "20ms"},
		"no valid record":          {"soon", []time.Duration{200 * ms}, "200ms"},
		"one that is slow":         {"20ms", []time.Duration{20 * ms, 200 * ms, 20 * ms}, "20ms"},
		"slower":                   {"20ms", []time.Duration{120 * ms, 200 * ms, 210 * ms}, "200ms"},
		"slower, but by little":    {"20ms", []time.Duration{119 * ms, 200 * ms, 200 * ms}, "20ms"},
		"slower, but not twice":    {"200ms", []time.Duration{399 * ms, 500 * ms, 500 * ms}, "200ms"},
		"faster":                   {"200ms", []time.Duration{100 * ms, 2 * ms, 2 * ms}, "20ms"},
		"faster, but by little":    {"100ms", []time.Duration{2 * ms, 2 * ms, 2 * ms}, "100ms"},
		"faster, but not by half":  {"500ms", []time.Duration{251 * ms, 2 * ms, 2 * ms}, "500ms"},
		"only the last ones count": {"20ms", []time.Duration{20 * ms, 200 * ms, 200 * ms, 210 * ms}, "200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			for _, pause := range []time.Duration{time.Minute, time.Hour} {
				memory, got := &probeMemory{}, test.recorded
				for i, measured := range test.measured {
					got = memory.latency(got, measured, start.Add(time.Duration(i)*pause))
				}
				if want := test.want; pause == time.Hour && got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if _, err := time.ParseDuration(test.recorded); pause == time.Minute && err == nil && got != test.recorded {
					t.Errorf("within an hour: got %s, want %s", got, test.recorded)
				}
			}
		})
	}
}

func TestDescribeCredentials(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	refused := func(when time.Time) map[string]endpoint.Refusal {
		return map[string]endpoint.Refusal{"c": {At: when, Endpoint: "lpar1", Message: "line\x1b[1m\n" + strings.Repeat("x", 5000)}}
	}
	accepted := func(when time.Time) map[string]time.Time { return map[string]time.Time{"d": when} }
	for name, test := range map[string]struct {
		logons map[string]*endpoint.Logon
		want   metav1.ConditionStatus
		text   string
	}{
		"none":                 {nil, "", ""},
		"only tried":           {map[string]*endpoint.Logon{"a": {Trying: &endpoint.Holder{}}}, "", ""},
		"accepted":             {map[string]*endpoint.Logon{"b": {Accepted: accepted(at)}, "a": {Accepted: accepted(at)}}, "True", "a, b"},
		"refused":              {map[string]*endpoint.Logon{"a": {Refused: refused(at)}}, "False", `user a at 2026-01-02T03:04:05Z (ZosEndpoint "lpar1": line xxx`},
		"refused and replaced": {map[string]*endpoint.Logon{"a": {Refused: refused(at), Accepted: accepted(at.Add(time.Second))}}, "True", "as a"},
		"accepted before":      {map[string]*endpoint.Logon{"a": {Refused: refused(at), Accepted: accepted(at.Add(-time.Second))}}, "False", "user a"},
		"another user later":   {map[string]*endpoint.Logon{"a": {Refused: refused(at)}, "b": {Accepted: accepted(at.Add(time.Second))}}, "True", "as b"},
		"another user before":  {map[string]*endpoint.Logon{"a": {Refused: refused(at)}, "b": {Accepted: accepted(at.Add(-time.Second))}}, "False", "user a"},
		"one of two refused":   {map[string]*endpoint.Logon{"a": {Accepted: accepted(at)}, "b": {Refused: refused(at)}}, "False", "user b"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &v2beta2.ZosEndpoint{}
			status.SetCondition(&e.Status.Conditions, v2beta2.ConditionCredentialAccepted, 1, nil, "before")
			describeCredentials(e, &endpoint.State{Logons: test.logons})
			got := meta.FindStatusCondition(e.Status.Conditions, v2beta2.ConditionCredentialAccepted)
			if got == nil {
				got = &metav1.Condition{}
			}
			if got.Status != test.want || !strings.Contains(got.Message, test.text) || len(got.Message) > 2000 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A state that somebody damaged, or repaired, must be noticed too.
func TestStateHasNews(t *testing.T) {
	secret := func(state string) *corev1.Secret {
		return &corev1.Secret{Data: map[string][]byte{endpoint.StateFile: []byte(state)}}
	}
	const held = `{"systems":{"a:22":{"running":[{"operator":"n/o","podName":"p","pod":"1","resource":"r","run":"1","since":"2026-01-02T03:04:05Z"}]}}}`
	const outage = `{"systems":{"a:22":{"outage":{"since":"2026-01-02T03:04:05Z","message":"m"}}}}`
	for name, test := range map[string]struct {
		before, after string
		want          bool
	}{
		"a place":    {`{}`, held, false},
		"a try":      {`{}`, `{"logons":{"u":{"trying":{"operator":"n/o","podName":"p","pod":"1","resource":"r","run":"1","since":"2026-01-02T03:04:05Z"}}}}`, true},
		"an outage":  {held, outage, true},
		"damaged":    {`{}`, `{`, true},
		"repaired":   {`{`, `{}`, true},
		"as damaged": {`{`, `{`, false},
	} {
		got := stateHasNews().Update(event.TypedUpdateEvent[*corev1.Secret]{ObjectOld: secret(test.before), ObjectNew: secret(test.after)})
		if got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestTheCacheOfStatesHasNothingElse(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: v2beta2.GroupVersion.String(), Kind: "ZosEndpoint", Name: "lpar1", UID: "1"}
	for name, test := range map[string]struct {
		name   string
		owners []metav1.OwnerReference
		want   int
	}{
		"a state":       {"zosendpoint-1", []metav1.OwnerReference{owner}, 1},
		"another name":  {"password", []metav1.OwnerReference{owner}, 0},
		"another owner": {"zosendpoint-1", []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "1"}}, 0},
		"no owner":      {"zosendpoint-1", nil, 0},
	} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: test.name, OwnerReferences: test.owners, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
			Data:       map[string][]byte{endpoint.StateFile: []byte("{}"), "password": []byte("x")},
		}
		if _, err := onlyState(secret); err != nil {
			t.Fatal(err)
		}
		if len(secret.Data) != test.want || secret.Data["password"] != nil || secret.ManagedFields != nil {
			t.Errorf("%s: got %+v", name, secret)
		}
	}
}

// Code in the pod of an operator can name any pod, and names that no pod can have.
func TestHoldersThatAreNoPods(t *testing.T) {
	for _, test := range []struct {
		operator, pod string
		want          bool
	}{
		{"n/o", "o-1", true}, {"n/o", "", false}, {"n/o", "a/b", false}, {"n/o", "..", false}, {"/o", "o-1", false}, {"", "", false}, {"../n/o", "o-1", false},
	} {
		if got := isPod(test.operator, test.pod); got != test.want {
			t.Errorf("%q %q: got %v", test.operator, test.pod, got)
		}
	}
	gone, err := (&stateStore{}).goneHolders(t.Context(), map[string]bool{"n/o": true}, &endpoint.State{Systems: map[string]*endpoint.System{
		"a:22": {Running: []endpoint.Holder{{Operator: "n/o", PodName: "a/b", Pod: "1"}, {Operator: "/o", PodName: "p", Pod: "2"}, {}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !gone("n/o", "a/b", "1") || !gone("/o", "p", "2") || !gone("", "", "") || gone("n/o", "", "") {
		t.Error("holders that cannot exist must be gone, and installed operators must keep their turn")
	}
}

func TestRecoverWhenTheSystemAnswers(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e := &v2beta2.ZosEndpoint{}
	state := &endpoint.State{Systems: map[string]*endpoint.System{"a:22": {Outage: &endpoint.Outage{Since: since}}}}
	for reason, want := range map[string]bool{v2beta2.ReasonHostKeyMismatch: true, v2beta2.ReasonHostUnreachable: false} {
		status.SetCondition(&e.Status.Conditions, v2beta2.ConditionReachable, 1, status.Retry(reason, errors.New("x")), "")
		if got := (&probeMemory{over: since}).mayRecover(e, state, "a:22"); got != want {
			t.Errorf("%s: got %v", reason, got)
		}
	}
	if !isAnswer(fmt.Errorf("x: %w", &probe.HostKeyMismatchError{})) || !isAnswer(nil) || isAnswer(errors.New("x")) {
		t.Error("only a system that answers can have another key")
	}
}

// Others wait for the result of a run that tries a credential. If its pod is gone, nothing else wakes the manager.
func TestLooksForPodsThatTryACredential(t *testing.T) {
	e, o := &v2beta2.ZosEndpoint{}, &outcome{state: &endpoint.State{}}
	memory := &probeMemory{due: time.Now().Add(time.Hour)}
	if got := o.after(e, memory); got <= outageInterval {
		t.Errorf("got %s", got)
	}
	o.state.Logons = map[string]*endpoint.Logon{"u": {Trying: &endpoint.Holder{}}}
	if got := o.after(e, memory); got != outageInterval {
		t.Errorf("got %s", got)
	}
}
