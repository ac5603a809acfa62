package runner

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// journalEntry is a run whose outcome is not yet written to its resource. The entry is made before the run starts, and is
// complete when Ended is true.
type journalEntry struct {
	UID types.UID `json:"uid"`
	// Generation of the resource that the run was started with.
	Generation int64 `json:"generation"`
	// Input and Decision led to the run. They make the record of a run whose gate ended before it did.
	Input    gate.Input    `json:"input"`
	Decision gate.Decision `json:"decision"`
	Place    *place        `json:"place,omitempty"`
	Run      runstatus.Run `json:"run"`
	// Waited is how long the run waited for its endpoint.
	Waited time.Duration `json:"waited,omitempty"`
	// Check is true for a drift check. It has nothing to write but what its endpoint learns.
	Check  bool             `json:"check,omitempty"`
	Ended  bool             `json:"ended,omitempty"`
	Report runstatus.Report `json:"report,omitzero"`
	Record gate.Record      `json:"record,omitzero"`
}

// journal has one file for each resource with an entry.
type journal struct {
	// dir is the folder for the pod's state. It outlives the container.
	dir string
}

func (j journal) path(uid types.UID) string {
	return filepath.Join(j.dir, "journal", string(uid)+".json")
}

func (j journal) write(e journalEntry) error {
	content, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(j.path(e.UID)), 0o770); err != nil {
		return err
	}
	return replaceFile(j.path(e.UID), content)
}

// updatePlace writes what has changed in the place of a run, if it has an entry.
func (j journal) updatePlace(p *place) error {
	e, err := j.read(p.Resource)
	if err != nil || e == nil || e.Place == nil {
		return err
	}
	e.Place = p
	return j.write(*e)
}

// read returns the entry of a resource, or nil if there is none.
func (j journal) read(uid types.UID) (*journalEntry, error) {
	e := &journalEntry{}
	err := readJSON(j.path(uid), e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

func (j journal) remove(uid types.UID) error {
	err := os.Remove(j.path(uid))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
