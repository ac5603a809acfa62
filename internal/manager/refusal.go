package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// The time for which settings are refused doubles with each attempt.
const firstRefusal, maxRefusal = 10 * time.Minute, 24 * time.Hour

// errRefused means that a manager did not start with the settings.
var errRefused = errors.New("the manager did not start with these settings")

// refusal says with which settings a manager did not start. A process passes it on to the next one.
type refusal struct {
	Hash     string
	Attempts int
	Until    time.Time
	Reason   string
}

// parseRefusal returns none for a text that is not one.
func parseRefusal(text string) refusal {
	var r refusal
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return refusal{}
	}
	return r
}

func (r refusal) String() string {
	text, _ := json.Marshal(r) // It has nothing that cannot be written.
	return string(text)
}

// again is the refusal after another attempt.
func (r refusal) again(hash string, reason error, now time.Time) refusal {
	attempts := 1
	if r.Hash == hash {
		attempts += r.Attempts
	}
	period := firstRefusal
	for i := 1; i < attempts && period < maxRefusal; i++ {
		period = min(2*period, maxRefusal)
	}
	return refusal{Hash: hash, Attempts: attempts, Until: now.Add(period).UTC().Truncate(time.Second), Reason: printable.Line(reason.Error(), 1024)}
}

// of returns why settings are refused, or nil.
func (r refusal) of(hash string, now time.Time) error {
	if r.Hash != hash || !now.Before(r.Until) {
		return nil
	}
	return fmt.Errorf("%w: %s; correct them, or wait: it tries them again at %s", errRefused, r.Reason, r.Until.Format(time.RFC3339))
}

// announced is the value of the annotation for other managers, or empty.
func (r refusal) announced() string {
	if r.Hash == "" {
		return ""
	}
	return r.Hash + " " + r.Reason
}

// isTransient reports whether the API server, and not the settings, may be why a manager did not start.
func isTransient(err error) bool {
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op != "listen" {
		return true
	}
	return utilnet.IsTimeout(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}
