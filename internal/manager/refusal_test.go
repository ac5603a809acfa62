package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestRefusedSettingsAreTriedAgain(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	first := parseRefusal(refusal{}.again("a", errors.New("address in use"), now).String())
	if err := first.of("a", now.Add(9*time.Minute)); !errors.Is(err, errRefused) ||
		!strings.Contains(err.Error(), "address in use; correct them, or wait: it tries them again at 2026-11-23T12:10:00Z") {
		t.Errorf("got %v", err)
	}
	if first.of("b", now) != nil || first.of("a", now.Add(10*time.Minute)) != nil || parseRefusal("x").of("", now) != nil {
		t.Error("other settings, or those of long ago, are refused")
	}
	r := first
	for _, minutes := range []float64{20, 40, 80, 160, 320, 640, 1280, 1440, 1440} {
		if r = r.again("a", errors.New("x"), now); r.Until.Sub(now).Minutes() != minutes {
			t.Errorf("attempt %d: want %v minutes, got %s", r.Attempts, minutes, r.Until.Sub(now))
		}
	}
	if other := r.again("b", errors.New("x"), now); other.Attempts != 1 {
		t.Errorf("other settings: %+v", other)
	}
}

func TestFailuresOfTheAPIServerAreNoRefusal(t *testing.T) {
	dial := &url.Error{Op: "Get", Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	for _, err := range []error{
		fmt.Errorf("reading: %w", dial), apierrors.NewServiceUnavailable("x"), apierrors.NewTooManyRequestsError("x"), context.DeadlineExceeded,
	} {
		if !isTransient(err) {
			t.Errorf("%v is a refusal", err)
		}
	}
	for _, err := range []error{&net.OpError{Op: "listen", Err: syscall.EADDRINUSE}, errNotSynced, errors.New("x")} {
		if isTransient(err) {
			t.Errorf("%v is no refusal", err)
		}
	}
}
