package trustedauthorities

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Authorities are the certificate authorities that pods trust for the download of archives. All operators get them when they
// change, without a rollout.
type Authorities struct {
	// Bundle returns the authorities in PEM, or "" as long as they are not known.
	Bundle func() string
	// Spread is the time over which the operators get changed authorities, to spread the load.
	Spread time.Duration

	Changes chan event.GenericEvent
}

// NewAuthorities makes Authorities.
func NewAuthorities(bundle func() string, spread time.Duration) *Authorities {
	return &Authorities{Bundle: bundle, Spread: spread, Changes: make(chan event.GenericEvent, 1)}
}

// Changed makes all operators get the authorities.
func (a *Authorities) Changed() {
	select {
	case a.Changes <- event.GenericEvent{Object: &corev1.ConfigMap{}}:
	default: // An earlier change is not processed yet.
	}
}

// Known reports whether operators can be told whom to trust.
func (a *Authorities) Known() bool { return a == nil || a.Bundle() != "" }

// PEM returns the authorities, or "" if they are not known or a is nil.
func (a *Authorities) PEM() string {
	if a == nil {
		return ""
	}
	return a.Bundle()
}
