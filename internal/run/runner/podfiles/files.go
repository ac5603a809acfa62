// Package podfiles reads and writes the files of an operator's pod: what a call is given, and what calls keep for later ones. Calls are
// processes, and have no other memory.
package podfiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// maxCredential limits the length of what identifies a credential, in bytes.
const maxCredential = 64

// Files is what the gate reads from files and the environment.
type Files struct {
	Settings *gate.Settings
	// Kind are the settings of the resource's kind.
	Kind gate.KindSettings
	Key  gate.Key
	// Given are ansible-operator's extra vars.
	Given                     map[string]any
	Event                     gate.Event
	KindName, Namespace, Name string
	// EndpointsDir has the endpoints of the installation, and StateDir what outlives the container.
	EndpointsDir, StateDir string
}

// ReadSettings reads the settings of the gate from the file in ZOSCB_SETTINGS. It is the copy that the init container made
// when it unpacked the archive: the mounted file may already be about the next archive.
func ReadSettings() (*gate.Settings, error) {
	settings := &gate.Settings{}
	return settings, ReadJSON(os.Getenv("ZOSCB_SETTINGS"), settings)
}

// StateDir is the folder for what outlives the container.
func StateDir() string { return os.Getenv("ZOSCB_STATE_DIR") }

// ReadFiles reads everything but the cluster.
func ReadFiles(c Call) (*Files, error) {
	f := &Files{EndpointsDir: os.Getenv("ZOSCB_ENDPOINTS_DIR"), StateDir: StateDir()}
	if f.StateDir == "" {
		return nil, errors.New("ZOSCB_STATE_DIR is not set")
	}
	var err error
	if f.Settings, err = ReadSettings(); err != nil {
		return nil, err
	}
	if f.Key, err = ReadFile(filepath.Join(f.EndpointsDir, gate.RecordKeyFile)); err != nil {
		return nil, err
	}
	if len(f.Key) != gate.RecordKeyBytes {
		return nil, fmt.Errorf("%s has %d bytes instead of %d", gate.RecordKeyFile, len(f.Key), gate.RecordKeyBytes)
	}
	if err := ReadJSON(c.ExtraVarsFile(), &f.Given); err != nil {
		return nil, err
	}
	meta, _ := f.Given["ansible_operator_meta"].(map[string]any)
	f.Namespace, f.Name = text(meta["namespace"]), text(meta["name"])
	f.KindName = text(f.Given["k8s_cr_kind"])
	f.Event = gate.Event(text(f.Given["k8s_cr_event"]))
	if f.Namespace == "" || f.Name == "" || (f.Event != gate.EventCreate && f.Event != gate.EventDelete) {
		return nil, errors.New("the extra vars do not name a resource and an event")
	}
	var known bool
	if f.Kind, known = f.Settings.Kinds[f.KindName]; !known {
		return nil, fmt.Errorf("kind %q is not in %s", f.KindName, gate.SettingsFile)
	}
	return f, nil
}

// EndpointVariables returns the content of an endpoint's file of variables, or nil if there is no such endpoint.
func (f *Files) EndpointVariables(name string) ([]byte, error) {
	if name == "" || strings.ContainsRune(name, filepath.Separator) {
		return nil, nil
	}
	return f.endpointFile(name, "_vars.yaml")
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// Logon is how a run against an endpoint logs on. It is empty if there is no logon.
type Logon struct {
	User string
	// UserKnown is true if the endpoint's variables have a user, which may be a template.
	UserKnown bool
	// Credential identifies the credential. The manager computes it.
	Credential string
	// Personal is the key that identifies the credential which the resource names, or nil if the installation has the credential.
	Personal endpoint.Key
	// Unknown is true if there is a key or a password that the manager has not identified: a refusal could not be remembered.
	Unknown bool
}

// Logon returns the logon at an endpoint, or nil if the installation has no such endpoint.
func (f *Files) Logon(name string) (*Logon, error) {
	content, err := f.EndpointVariables(name)
	if content == nil || err != nil {
		return nil, err
	}
	var variables map[string]any
	if err := json.Unmarshal(content, &variables); err != nil {
		return nil, fmt.Errorf("variables of endpoint %s: %w", name, err)
	}
	refusal, err := f.endpointFile(name, "_refusal")
	if variables["ansible_connection"] == "local" || refusal != nil || err != nil {
		return &Logon{}, err
	}
	l := &Logon{}
	user := text(variables["ansible_user"])
	if l.UserKnown = user != ""; !strings.Contains(user, "{{") {
		l.User = user
	}
	personal, err := f.endpointFile(name, "_personal")
	if err != nil {
		return nil, err
	}
	if personal != nil {
		l.Personal, err = endpoint.ParseKey(personal)
		return l, err
	}
	credential, err := f.endpointFile(name, "_credential")
	if err != nil {
		return nil, err
	}
	if l.Credential = strings.TrimSpace(string(credential)); len(l.Credential) > maxCredential {
		return nil, fmt.Errorf("%s_credential has %d bytes, more than %d", name, len(l.Credential), maxCredential)
	}
	if l.Credential != "" {
		return l, nil
	}
	for _, suffix := range []string{"_key", "_password"} {
		content, err := f.endpointFile(name, suffix)
		if err != nil {
			return nil, err
		}
		l.Unknown = l.Unknown || content != nil
	}
	return l, nil
}

// endpointFile returns the content of an endpoint's file, or nil if there is none.
func (f *Files) endpointFile(name, suffix string) ([]byte, error) {
	content, err := ReadFile(filepath.Join(f.EndpointsDir, name+suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// EndpointsNamespace returns the namespace of the ZosEndpoints.
func (f *Files) EndpointsNamespace() (string, error) {
	content, err := f.endpointFile("", gate.EndpointsNamespaceFile)
	if namespace := strings.TrimSpace(string(content)); namespace != "" || err != nil {
		return namespace, err
	}
	return f.Namespace, nil
}

// KeptSecrets returns the names of Secrets that need no label.
func (f *Files) KeptSecrets() ([]string, error) {
	content, err := f.endpointFile("", gate.KeptSecretsFile)
	if content == nil || err != nil {
		return nil, err
	}
	var kept []string
	return kept, ReadJSON(filepath.Join(f.EndpointsDir, gate.KeptSecretsFile), &kept)
}

// Identity returns what records of the resource are signed for.
func (f *Files) Identity() gate.Identity {
	return gate.Identity{Group: f.Settings.Group, Kind: f.KindName, Namespace: f.Namespace, Name: f.Name}
}

// ResourceID returns kind/namespace/name of the resource.
func (f *Files) ResourceID() string { return f.KindName + "/" + f.Namespace + "/" + f.Name }
