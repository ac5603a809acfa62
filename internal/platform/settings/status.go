package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

const (
	// StatusName is the name of the ConfigMap in which managers say what became of the settings, and keep those that they use.
	StatusName = "collection-operator-settings-status"

	// KeyValid is its key that is "true" if the settings are used, or "false" if they are not.
	KeyValid = "valid"
	// KeyMessage is its key with the problems, one on each line.
	KeyMessage = "message"
	// KeyObserved is its key with the resourceVersion of the settings that the other keys are about, or "" if they do not exist.
	KeyObserved = "observedResourceVersion"
	// KeyInUse is its key with the data of the settings that are used, in JSON.
	KeyInUse = "inUse"

	// KeyWaiting is its key that is "true" if the manager waits for correct settings, and does not run.
	KeyWaiting = "waiting"
	// KeyWarnings is its key with what has no effect in the settings, one on each line.
	KeyWarnings = "warnings"

	// maxMessage limits the message in bytes.
	maxMessage = 16 << 10
)

// Status says what became of the settings.
type Status struct {
	// Problem is why the settings are not used, or nil.
	Problem error
	// Warnings are about keys that have no effect.
	Warnings []string
	// Waiting is true if the manager waits for correct settings, and does not run.
	Waiting bool
	// Observed is the resourceVersion of the settings, or "".
	Observed string
	// InUse is the data of the settings that are used, or were used last. It is nil if no settings were used yet, and empty if there were
	// none.
	InUse map[string]string
}

// Message has the problems, one on each line, or is empty.
func (s Status) Message() string {
	if s.Problem == nil {
		return ""
	}
	return printable.Cut(printable.Lines(s.Problem.Error()), maxMessage)
}

// Data returns the data of the ConfigMap.
func (s Status) Data() (map[string]string, error) {
	inUse, err := json.Marshal(s.InUse)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		KeyValid: fmt.Sprint(s.Problem == nil), KeyMessage: s.Message(), KeyObserved: s.Observed, KeyInUse: string(inUse),
		KeyWaiting: fmt.Sprint(s.Waiting), KeyWarnings: printable.Cut(printable.Lines(strings.Join(s.Warnings, "\n")), maxMessage),
	}, nil
}

// ParseStatus returns what the data of the ConfigMap says, without warnings. Without data, there is no status. What cannot be read is an
// error, and counts as settings that were not used yet.
func ParseStatus(data map[string]string) (Status, error) {
	status := Status{Observed: data[KeyObserved], Waiting: data[KeyWaiting] == "true"}
	if data[KeyValid] == "false" {
		status.Problem = errors.New(strings.TrimSpace(data[KeyMessage]))
	}
	if data[KeyInUse] == "" {
		return status, nil
	}
	if err := json.Unmarshal([]byte(data[KeyInUse]), &status.InUse); err != nil {
		status.InUse = nil
		return status, fmt.Errorf("key %s of ConfigMap %q: %w", KeyInUse, StatusName, err)
	}
	return status, nil
}
