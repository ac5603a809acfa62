package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ticket is that of a run which waits for its endpoint.
type ticket struct {
	// Since is when it began to wait.
	Since time.Time `json:"since"`
	// Next is when it asks again.
	Next time.Time `json:"next"`
	// Endpoint is the name of its ZosEndpoint.
	Endpoint string `json:"endpoint"`
	// Shared is true if the runs of other ZosEndpoints with the same address wait for the same reason.
	Shared bool `json:"shared,omitempty"`
}

// tickets has a folder for each system with one file for each resource of this pod whose run waits.
type tickets struct {
	// dir is the folder for the pod's state.
	dir string
	// grace and lifetime are those of Intervals.
	grace, lifetime time.Duration
}

func newTickets(dir string, intervals Intervals) tickets {
	return tickets{dir: dir, grace: intervals.TicketGrace, lifetime: intervals.TicketLifetime}
}

func (t tickets) folder() string { return filepath.Join(t.dir, "tickets") }

func (t tickets) path(address string, uid types.UID) string {
	sum := sha256.Sum256([]byte(address))
	return filepath.Join(t.folder(), hex.EncodeToString(sum[:8]), string(uid))
}

// write replaces the ticket of a resource.
func (t tickets) write(address string, uid types.UID, content ticket) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	path := t.path(address, uid)
	if err := os.MkdirAll(filepath.Dir(path), 0o770); err != nil {
		return err
	}
	return replaceFile(path, raw)
}

// read returns the ticket of a resource, or an empty one if there is none that can be read.
func (t tickets) read(address string, uid types.UID) ticket {
	var content ticket
	if err := readJSON(t.path(address, uid), &content); err != nil {
		return ticket{}
	}
	return content
}

// remove removes the tickets of a resource, except that for the given system.
func (t tickets) remove(uid types.UID, except string) error {
	paths, err := filepath.Glob(filepath.Join(t.folder(), "*", string(uid)))
	for _, path := range paths {
		if except == "" || path != t.path(except, uid) {
			err = errors.Join(err, ignoreMissing(os.Remove(path)))
		}
	}
	return err
}

// ahead is the number of runs that have been waiting for longer.
type ahead struct {
	// shared is the number of those that wait for the system, whatever their ZosEndpoint is.
	shared int
	// endpoint is the number of those that wait because of the same ZosEndpoint: they are not ahead of a run that it lets pass.
	endpoint int
}

// ahead returns how many runs have been waiting for longer than own for a system. It removes tickets that nobody uses any more, or
// that cannot be read.
func (t tickets) ahead(address string, uid types.UID, own ticket, now time.Time) (ahead, error) {
	var count ahead
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
		other := t.read(address, types.UID(name))
		switch late := now.Sub(other.Next); {
		case late > t.lifetime:
			if err := ignoreMissing(os.Remove(filepath.Join(folder, name))); err != nil {
				return count, err
			}
		case late > t.grace || !isEarlier(other.Since, name, own.Since, string(uid)):
		case other.Shared:
			count.shared++
		case other.Endpoint == own.Endpoint:
			count.endpoint++
		}
	}
	return count, nil
}

func isEarlier(since time.Time, uid string, otherSince time.Time, otherUID string) bool {
	return since.Before(otherSince) || since.Equal(otherSince) && uid < otherUID
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
