package podfiles

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Slot is what a run got when it was admitted. It is released after the run, also by another process of the pod.
type Slot struct {
	// Namespace and Secret have the state of the security domain.
	Namespace string `json:"namespace"`
	Secret    string `json:"secret"`
	// Settings of the endpoint when the run started, without windows.
	Settings   endpoint.Settings `json:"settings"`
	User       string            `json:"user,omitempty"`
	Credential string            `json:"credential,omitempty"`
	// Resource is the UID of the custom resource, Admitted when the run was admitted, and Canary what the state said then.
	Resource types.UID `json:"resource,omitempty"`
	Admitted time.Time `json:"admitted,omitzero"`
	Canary   bool      `json:"canary,omitempty"`
	// Reported is what the state has been told already, and ToldAt when. Others may have learned something else since.
	Reported endpoint.Connection `json:"told,omitempty"`
	ToldAt   time.Time           `json:"toldAt,omitzero"`
}

// Entry is a run whose outcome is not yet written to its resource. The entry is made before the run starts, and is
// complete when Ended is true.
type Entry struct {
	UID types.UID `json:"uid"`
	// Generation of the resource that the run was started with.
	Generation int64 `json:"generation"`
	// Input and Decision led to the run. They make the record of a run whose gate ended before it did.
	Input    gate.Input    `json:"input"`
	Decision gate.Decision `json:"decision"`
	Slot     *Slot         `json:"place,omitempty"`
	Run      runstatus.Run `json:"run"`
	// Waited is how long the run waited for its endpoint.
	Waited time.Duration `json:"waited,omitempty"`
	// Check is true for a drift check. It has nothing to write but what its endpoint learns.
	Check  bool             `json:"check,omitempty"`
	Ended  bool             `json:"ended,omitempty"`
	Report runstatus.Report `json:"report,omitzero"`
	Record gate.Record      `json:"record,omitzero"`
}

// Journal has one file for each resource with an entry.
type Journal struct {
	// Dir is the folder for the pod's state. It outlives the container.
	Dir string
}

func (j Journal) path(uid types.UID) string {
	return filepath.Join(j.Dir, "journal", string(uid)+".json")
}

// Write replaces the entry of a resource.
func (j Journal) Write(e Entry) error {
	return WriteJSON(j.path(e.UID), e)
}

// UpdateSlot writes what has changed in the slot of a run, if it has an entry.
func (j Journal) UpdateSlot(p *Slot) error {
	e, err := j.Read(p.Resource)
	if err != nil || e == nil || e.Slot == nil {
		return err
	}
	e.Slot = p
	return j.Write(*e)
}

// Read returns the entry of a resource, or nil if there is none.
func (j Journal) Read(uid types.UID) (*Entry, error) {
	e := &Entry{}
	err := ReadJSON(j.path(uid), e)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Remove removes the entry of a resource, if it has one.
func (j Journal) Remove(uid types.UID) error {
	return ignoreMissing(os.Remove(j.path(uid)))
}
