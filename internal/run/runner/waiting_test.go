package runner

import (
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestUntilNextLook(t *testing.T) {
	for waited, want := range map[time.Duration]time.Duration{
		-time.Second: 10 * time.Second, 0: 10 * time.Second, 10 * time.Second: 10 * time.Second, 20500 * time.Millisecond: 20 * time.Second,
		299 * time.Second: 299 * time.Second, time.Hour: 5 * time.Minute,
	} {
		if got := (&scope{intervals: DefaultIntervals()}).untilNextLook(waited); got != want {
			t.Errorf("after %s: %s, want %s", waited, got, want)
		}
	}
}

// Nobody tells of what a run waits for here, and a status that says so at once would only flash after an installation.
func TestWaitingWithoutState(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "a"}}}
	for reason, brief := range map[endpoint.Reason]bool{
		reasonEndpointNotFound: true, reasonStateUnavailable: true, reasonCredentialUnknown: true, reasonEndpointInvalid: false,
		reasonSecretNotAllowed: false, reasonPersonalMissing: false, reasonPersonalInvalid: false, reasonPersonalUnreadable: true, reasonPersonalUnprotected: false,
	} {
		i := DefaultIntervals()
		r := &scope{intervals: i, tickets: podfiles.NewTickets(t.TempDir(), i.TicketGrace, i.TicketLifetime)}
		began := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
		apiserver.Must(t, r.tickets.Write("host:22", "a", podfiles.Ticket{Since: began.Add(-time.Minute)}))
		apiserver.Must(t, r.tickets.Write(withoutAddress, "a", podfiles.Ticket{Since: began}))
		w := &waitError{}
		if err := r.waitFor(live, reason, "why"); !errors.As(err, &w) {
			t.Fatal(err)
		}
		if w.Reason != reason || w.Message != "why" || w.Brief != brief || !w.since.Equal(began) || w.After < time.Minute {
			t.Errorf("%s: %+v", reason, w)
		}
		if own := r.tickets.Read(withoutAddress, "a"); !own.Since.Equal(began) {
			t.Errorf("%s: the ticket is %+v", reason, own)
		}
		if other := r.tickets.Read("host:22", "a"); !other.Since.IsZero() {
			t.Errorf("%s: the run still waits for its system: %+v", reason, other)
		}
	}
}

func TestUnusableObjects(t *testing.T) {
	secrets := corev1.Resource("secrets")
	secret := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{
		endpoint.StateFile: base64.StdEncoding.EncodeToString([]byte("{")),
	}}}
	_, invalid := parseState(secret)
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"none": {nil, false}, "another": {errors.New("timeout"), false}, "conflict": {apierrors.NewConflict(secrets, "s", nil), false},
		"not found": {apierrors.NewNotFound(secrets, "s"), true}, "forbidden": {apierrors.NewForbidden(secrets, "s", nil), true},
		"unreadable": {&stateError{invalid}, true},
	} {
		if got := isUnusable(tc.err); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
		if tc.err != nil && isUnusable(fmt.Errorf("state: %w", tc.err)) != tc.want {
			t.Errorf("%s: another result in another error", name)
		}
	}
}

// A run that passes the windows is not behind those that do not, even if a limit is set.
func TestAdmissionBehindOthers(t *testing.T) {
	settings := endpoint.Settings{Name: "lpar1", Address: "host:22", MaxRuns: 1}
	held := settings
	held.Hold = "IPL"
	for name, tc := range map[string]struct {
		settings endpoint.Settings
		ahead    podfiles.Ahead
		reason   endpoint.Reason
		after    time.Duration
	}{
		"others wait for the window": {settings, podfiles.Ahead{Endpoint: 3}, "", 0},
		"others wait for the system": {settings, podfiles.Ahead{Shared: 1}, endpoint.ReasonBusy, 2 * time.Second},
		"all wait for the endpoint":  {held, podfiles.Ahead{Shared: 50, Endpoint: 5}, endpoint.ReasonHeld, 30 * time.Second},
	} {
		request := endpoint.Request{Now: now, Operator: "zos/op", Pod: "p", Resource: "Job/zos/a", Run: "1", Since: now}
		got := admitBehind(&endpoint.State{}, tc.settings, request, tc.ahead)
		if tc.reason == "" {
			if got.Wait != nil {
				t.Errorf("%s: %+v", name, got.Wait)
			}
			continue
		}
		if got.Wait == nil || got.Wait.Reason != tc.reason || got.Wait.After != tc.after {
			t.Errorf("%s: %+v", name, got.Wait)
		}
	}
}
