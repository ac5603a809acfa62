package endpoint

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func zosEndpoint(change func(*v2beta2.ZosEndpoint)) *v2beta2.ZosEndpoint {
	e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "zos1"}, Spec: v2beta2.ZosEndpointSpec{Host: "ZOS1.Example.com"}}
	if change != nil {
		change(e)
	}
	return e
}

func TestAddressAndDomain(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*v2beta2.ZosEndpoint)
		address, domain string
	}{
		"host":   {nil, "zos1.example.com:22", "zos1.example.com"},
		"port":   {func(e *v2beta2.ZosEndpoint) { e.Spec.Port = 2022 }, "zos1.example.com:2022", "zos1.example.com"},
		"IPv6":   {func(e *v2beta2.ZosEndpoint) { e.Spec.Host = "2001:DB8::1" }, "[2001:db8::1]:22", "2001:db8::1"},
		"domain": {func(e *v2beta2.ZosEndpoint) { e.Spec.SecurityDomain = "PLEX1" }, "zos1.example.com:22", "PLEX1"},
		"local":  {func(e *v2beta2.ZosEndpoint) { e.Spec.EndpointType = v2beta2.EndpointLocal }, "local/zos1", "local/zos1"},
		"local with a domain": {func(e *v2beta2.ZosEndpoint) {
			e.Spec.EndpointType, e.Spec.SecurityDomain = v2beta2.EndpointLocal, "PLEX1"
		}, "local/zos1", "PLEX1"},
	} {
		e := zosEndpoint(tc.change)
		settings, err := SettingsOf(e)
		if err != nil || settings.Address != tc.address || Address(e) != tc.address || Domain(e) != tc.domain {
			t.Errorf("%s: address %q, domain %q, error %v", name, settings.Address, Domain(e), err)
		}
	}
}

func TestStateNameIsOnePerDomain(t *testing.T) {
	name := StateName(zosEndpoint(nil))
	if want := "zosendpoint-c96725cb5e9647e8c7f56eefb54f792b"; name != want {
		t.Errorf("name %q, want %q", name, want)
	}
	same := zosEndpoint(func(e *v2beta2.ZosEndpoint) { e.Name, e.Spec.Host, e.Spec.Port = "other", "zos1.EXAMPLE.com", 2022 })
	if StateName(same) != name {
		t.Errorf("another port of the same host has state %q, not %q", StateName(same), name)
	}
	other := zosEndpoint(func(e *v2beta2.ZosEndpoint) { e.Spec.SecurityDomain = "PLEX1" })
	if StateName(other) == name {
		t.Error("two domains have the same state")
	}
}

func TestSettingsOf(t *testing.T) {
	since := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	reachable := func(status metav1.ConditionStatus, reason string) func(*v2beta2.ZosEndpoint) {
		return func(e *v2beta2.ZosEndpoint) {
			e.Status.Conditions = []metav1.Condition{{
				Type: v2beta2.ConditionReachable, Status: status, Reason: reason, Message: "connection refused", LastTransitionTime: metav1.NewTime(since),
			}}
		}
	}
	annotated := func(value string) func(*v2beta2.ZosEndpoint) {
		return func(e *v2beta2.ZosEndpoint) { e.Annotations = map[string]string{AnnotationRunNow: value} }
	}
	for name, tc := range map[string]struct {
		change func(*v2beta2.ZosEndpoint)
		want   Settings
	}{
		"nothing": {nil, Settings{}},
		"all": {func(e *v2beta2.ZosEndpoint) {
			e.Spec.MaxConcurrentRuns, e.Spec.Hold, e.Spec.Settle = ptr.To[int32](4), "IPL", &metav1.Duration{Duration: time.Minute}
		}, Settings{MaxRuns: 4, Hold: "IPL", Settle: time.Minute}},
		"run now":               {annotated("2026-11-22T09:00:00Z"), Settings{RunNow: since}},
		"run now, other zone":   {annotated("2026-11-22T10:00:00+01:00"), Settings{RunNow: since}},
		"run now, no time":      {annotated("true"), Settings{}},
		"run now, empty":        {annotated(""), Settings{}},
		"unreachable":           {reachable(metav1.ConditionFalse, v2beta2.ReasonHostUnreachable), Settings{UnreachableSince: since, UnreachableMessage: "connection refused"}},
		"reachable":             {reachable(metav1.ConditionTrue, v2beta2.ReasonHostUnreachable), Settings{}},
		"wrong host key":        {reachable(metav1.ConditionFalse, v2beta2.ReasonHostKeyMismatch), Settings{}},
		"host must not be used": {reachable(metav1.ConditionFalse, v2beta2.ReasonHostForbidden), Settings{}},
	} {
		got, err := SettingsOf(zosEndpoint(tc.change))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got.MaxRuns != tc.want.MaxRuns || got.Hold != tc.want.Hold || got.Settle != tc.want.Settle || !got.RunNow.Equal(tc.want.RunNow) ||
			!got.UnreachableSince.Equal(tc.want.UnreachableSince) || got.UnreachableMessage != tc.want.UnreachableMessage || got.Name != "zos1" {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestSettingsOfNamesAllWrongWindows(t *testing.T) {
	e := zosEndpoint(func(e *v2beta2.ZosEndpoint) {
		e.Spec.RunWindows = []v2beta2.RunWindow{
			runWindow("wrong", time.Hour, ""), runWindow("0 22 * * *", time.Hour, ""), runWindow("0 22 * * *", time.Hour, "Mars"),
		}
	})
	_, err := SettingsOf(e)
	if err == nil || !strings.Contains(err.Error(), `spec.runWindows[0]: schedule "wrong"`) || !strings.Contains(err.Error(), `spec.runWindows[2]: timeZone "Mars"`) {
		t.Errorf("error %v", err)
	}
	e.Spec.RunWindows = e.Spec.RunWindows[1:2]
	if settings, err := SettingsOf(e); err != nil || len(settings.Windows) != 1 {
		t.Errorf("%d windows, error %v", len(settings.Windows), err)
	}
}
