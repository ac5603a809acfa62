package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// maxFileBytes limits what is read of a file.
const maxFileBytes = 8 << 20

// files is what the gate reads from files and the environment.
type files struct {
	settings *gate.Settings
	kind     gate.KindSettings
	key      gate.Key
	// given are ansible-operator's extra vars.
	given                     map[string]any
	event                     gate.Event
	kindName, namespace, name string
	endpointsDir, stateDir    string
}

// ReadSettings reads the settings of the gate from the file in ZOSCB_SETTINGS. It is the copy that the init container made
// when it unpacked the archive: the mounted file may already be about the next archive.
func ReadSettings() (*gate.Settings, error) {
	settings := &gate.Settings{}
	return settings, readJSON(os.Getenv("ZOSCB_SETTINGS"), settings)
}

func readFiles(dir string) (*files, error) {
	f := &files{endpointsDir: os.Getenv("ZOSCB_ENDPOINTS_DIR"), stateDir: os.Getenv("ZOSCB_STATE_DIR")}
	if f.stateDir == "" {
		return nil, errors.New("ZOSCB_STATE_DIR is not set")
	}
	var err error
	if f.settings, err = ReadSettings(); err != nil {
		return nil, err
	}
	if f.key, err = readFile(filepath.Join(f.endpointsDir, gate.RecordKeyFile)); err != nil {
		return nil, err
	}
	if len(f.key) != gate.RecordKeyBytes {
		return nil, fmt.Errorf("%s has %d bytes instead of %d", gate.RecordKeyFile, len(f.key), gate.RecordKeyBytes)
	}
	if err := readJSON(extraVarsFile(dir), &f.given); err != nil {
		return nil, err
	}
	meta, _ := f.given["ansible_operator_meta"].(map[string]any)
	f.namespace, f.name = text(meta["namespace"]), text(meta["name"])
	f.kindName = text(f.given["k8s_cr_kind"])
	f.event = gate.Event(text(f.given["k8s_cr_event"]))
	if f.namespace == "" || f.name == "" || (f.event != gate.EventCreate && f.event != gate.EventDelete) {
		return nil, errors.New("the extra vars do not name a resource and an event")
	}
	var known bool
	if f.kind, known = f.settings.Kinds[f.kindName]; !known {
		return nil, fmt.Errorf("kind %q is not in %s", f.kindName, gate.SettingsFile)
	}
	return f, nil
}

// endpointVariables returns the content of an endpoint's file of variables, or nil if there is no such endpoint.
func (f *files) endpointVariables(endpoint string) ([]byte, error) {
	if endpoint == "" || strings.ContainsRune(endpoint, filepath.Separator) {
		return nil, nil
	}
	content, err := readFile(filepath.Join(f.endpointsDir, endpoint+"_vars.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

func extraVarsFile(dir string) string { return filepath.Join(dir, "env", "extravars") }

func settingsFile(dir string) string { return filepath.Join(dir, "env", "settings") }

// optionsFile has the last options --cmdline. ansible-runner writes it, and uses it when it is called without that option.
func optionsFile(dir string) string { return filepath.Join(dir, "env", "cmdline") }

func text(value any) string {
	s, _ := value.(string)
	return s
}

// readFile reads a file of at most maxFileBytes.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return content, err
}

// readJSON decodes a file, with integers as int64 in untyped values, as in unstructured objects.
func readJSON(path string, into any) error {
	content, err := readFile(path)
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// replaceFile writes a file atomically, for this user alone.
func replaceFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
