package controller

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/status"
)

func TestRoundLatency(t *testing.T) {
	for measured, want := range map[time.Duration]string{
		0: "1ms", 1400 * time.Microsecond: "1ms", 1600 * time.Microsecond: "2ms", 4 * time.Millisecond: "5ms", 12 * time.Millisecond: "10ms",
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
		"slower":                   {"20ms", []time.Duration{45 * ms, 200 * ms, 50 * ms}, "50ms"},
		"slower, but not twice":    {"20ms", []time.Duration{39 * ms, 200 * ms, 200 * ms}, "20ms"},
		"faster":                   {"20ms", []time.Duration{10 * ms, 2 * ms, 2 * ms}, "2ms"},
		"faster, but not by half":  {"20ms", []time.Duration{11 * ms, 2 * ms, 2 * ms}, "20ms"},
		"only the last ones count": {"20ms", []time.Duration{20 * ms, 200 * ms, 200 * ms, 210 * ms}, "200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			memory, got := &probeMemory{}, test.recorded
			for _, measured := range test.measured {
				got = memory.latency(got, measured)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
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
		"refused":              {map[string]*endpoint.Logon{"a": {Refused: refused(at)}}, "False", `user a at 2026-01-02T03:04:05Z (ZosEndpoint "lpar1": line [1m xxx`},
		"refused and replaced": {map[string]*endpoint.Logon{"a": {Refused: refused(at), Accepted: accepted(at.Add(time.Second))}}, "True", "as a"},
		"accepted before":      {map[string]*endpoint.Logon{"a": {Refused: refused(at), Accepted: accepted(at.Add(-time.Second))}}, "False", "user a"},
		"one of two refused":   {map[string]*endpoint.Logon{"a": {Accepted: accepted(at)}, "b": {Refused: refused(at)}}, "False", "user b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &endpointScope{endpoint: &v2beta2.ZosEndpoint{}, state: &endpoint.State{Logons: test.logons}}
			status.SetCondition(&s.endpoint.Status.Conditions, v2beta2.ConditionCredentialAccepted, 1, nil, "before")
			describeCredentials(s)
			got := meta.FindStatusCondition(s.endpoint.Status.Conditions, v2beta2.ConditionCredentialAccepted)
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
