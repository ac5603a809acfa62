package podfiles

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ticket is that of a run which waits for its endpoint.
type Ticket struct {
	// Since is when it began to wait.
	Since time.Time `json:"since"`
	// Next is when it asks again.
	Next time.Time `json:"next"`
	// Endpoint is the name of its ZosEndpoint.
	Endpoint string `json:"endpoint"`
	// Shared is true if the runs of other ZosEndpoints with the same address wait for the same reason.
	Shared bool `json:"shared,omitempty"`
}

// Tickets has a folder for each system with one file for each resource of this pod whose run waits.
type Tickets struct {
	// dir is the folder for the pod's state.
	dir string
	// A run that asks later than announced by more than grace loses its turn, and its ticket is removed after lifetime.
	grace, lifetime time.Duration
}

// NewTickets returns the tickets of a pod: with the times of Intervals.
func NewTickets(dir string, grace, lifetime time.Duration) Tickets {
	return Tickets{dir: dir, grace: grace, lifetime: lifetime}
}

func (t Tickets) folder() string { return filepath.Join(t.dir, "tickets") }

func (t Tickets) path(address string, uid types.UID) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(t.folder(), hex.EncodeToString(sum[:8]), string(uid))
}

// Write replaces the ticket of a resource.
func (t Tickets) Write(address string, uid types.UID, content Ticket) error {
	return WriteJSON(t.path(address, uid), content)
}

// Read returns the ticket of a resource, or an empty one if there is none that can be read.
func (t Tickets) Read(address string, uid types.UID) Ticket {
	var content Ticket
	if err := ReadJSON(t.path(address, uid), &content); err != nil {
		return Ticket{}
	}
	return content
}

// Remove removes the tickets of a resource, except that for the given system.
func (t Tickets) Remove(uid types.UID, except string) error {
	paths, err := filepath.Glob(filepath.Join(t.folder(), "*", string(uid)))
	for _, path := range paths {
		if except == "" || path != t.path(except, uid) {
			err = errors.Join(err, ignoreMissing(os.Remove(path)))
		}
	}
	return err
}

// Ahead is the number of runs that have been waiting for longer.
type Ahead struct {
	// Shared is the number of those that wait for the system, whatever their ZosEndpoint is.
	Shared int
	// Endpoint is the number of those that wait because of the same ZosEndpoint: they are not ahead of a run that it lets pass.
	Endpoint int
}

// Ahead returns how many runs have been waiting for longer than own for a system. It removes tickets that nobody uses any more, or
// that cannot be read.
func (t Tickets) Ahead(address string, uid types.UID, own Ticket, now time.Time) (Ahead, error) {
	var count Ahead
	folder := filepath.Dir(t.path(address, uid))
	entries, err := os.ReadDir(folder)
	if err != nil {
		return count, ignoreMissing(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if name == string(uid) || strings.HasPrefix(name, ".") {
			continue
		}
		other := t.Read(address, types.UID(name))
		switch late := now.Sub(other.Next); {
		case late > t.lifetime:
			if err := ignoreMissing(os.Remove(filepath.Join(folder, name))); err != nil {
				return count, err
			}
		case late > t.grace || !isEarlier(other.Since, name, own.Since, string(uid)):
		case other.Shared:
			count.Shared++
		case other.Endpoint == own.Endpoint:
			count.Endpoint++
		}
	}
	return count, nil
}

func isEarlier(since time.Time, uid string, otherSince time.Time, otherUID string) bool {
	return since.Before(otherSince) || since.Equal(otherSince) && uid < otherUID
}

// Since returns the first of the times that can be true, or now. It has whole seconds, as times in status.
func Since(now time.Time, times ...time.Time) time.Time {
	for _, since := range times {
		if !since.IsZero() && !since.After(now) {
			return since.UTC().Truncate(time.Second)
		}
	}
	return now.UTC().Truncate(time.Second)
}
