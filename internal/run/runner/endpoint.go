package runner

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// maxStateWrites limits how often a change of the state is repeated because others have changed it.
const maxStateWrites = 10

// maxCredential limits the length of what identifies a credential, in bytes.
const maxCredential = 64

// logon is how a run against an endpoint logs on. It is empty if there is no logon.
type logon struct {
	user string
	// userKnown is true if the endpoint's variables have a user, which may be a template.
	userKnown bool
	// credential identifies the credential. The manager computes it.
	credential string
	// personal is the key that identifies the credential which the resource names, or nil if the installation has the credential.
	personal endpoint.Key
	// unknown is true if there is a key or a password that the manager has not identified: a refusal could not be remembered.
	unknown bool
}

// logon returns the logon at an endpoint, or nil if the installation has no such endpoint.
func (f *files) logon(name string) (*logon, error) {
	content, err := f.endpointVariables(name)
	if content == nil || err != nil {
		return nil, err
	}
	var variables map[string]any
	if err := json.Unmarshal(content, &variables); err != nil {
		return nil, fmt.Errorf("variables of endpoint %s: %w", name, err)
	}
	refusal, err := f.endpointFile(name, "_refusal")
	if variables["ansible_connection"] == "local" || refusal != nil || err != nil {
		return &logon{}, err
	}
	l := &logon{}
	user := text(variables["ansible_user"])
	if l.userKnown = user != ""; !strings.Contains(user, "{{") {
		l.user = user
	}
	personal, err := f.endpointFile(name, "_personal")
	if err != nil {
		return nil, err
	}
	if personal != nil {
		l.personal, err = endpoint.ParseKey(personal)
		return l, err
	}
	credential, err := f.endpointFile(name, "_credential")
	if err != nil {
		return nil, err
	}
	if l.credential = strings.TrimSpace(string(credential)); len(l.credential) > maxCredential {
		return nil, fmt.Errorf("%s_credential has %d bytes, more than %d", name, len(l.credential), maxCredential)
	}
	if l.credential != "" {
		return l, nil
	}
	for _, suffix := range []string{"_key", "_password"} {
		content, err := f.endpointFile(name, suffix)
		if err != nil {
			return nil, err
		}
		l.unknown = l.unknown || content != nil
	}
	return l, nil
}

// endpointFile returns the content of an endpoint's file, or nil if there is none.
func (f *files) endpointFile(name, suffix string) ([]byte, error) {
	content, err := readFile(filepath.Join(f.endpointsDir, name+suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return content, err
}

// endpointsNamespace returns the namespace of the ZosEndpoints.
func (f *files) endpointsNamespace() (string, error) {
	content, err := f.endpointFile("", gate.EndpointsNamespaceFile)
	if namespace := strings.TrimSpace(string(content)); namespace != "" || err != nil {
		return namespace, err
	}
	return f.namespace, nil
}

// readEndpoint returns a ZosEndpoint, or nil if it does not exist.
func (r *runner) readEndpoint(ctx context.Context, namespace, name string) (*v2beta2.ZosEndpoint, error) {
	object, err := r.client.Resource(v2beta2.GroupVersion.WithResource("zosendpoints")).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if isNotFound(err, name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ZosEndpoint %s in namespace %s: %w", name, namespace, err)
	}
	e := &v2beta2.ZosEndpoint{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, e); err != nil {
		return nil, fmt.Errorf("read ZosEndpoint %s in namespace %s: %w", name, namespace, err)
	}
	return e, nil
}

// changeState changes the state of a security domain, and writes it if change reports that it has changed. If somebody else has
// changed it since it was read, it is read again, and changed again.
func (r *runner) changeState(ctx context.Context, namespace, name string, change func(*endpoint.State) bool) error {
	secrets := r.client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")).Namespace(namespace)
	failed := func(err error) error {
		return fmt.Errorf("state of the endpoint, Secret %s in namespace %s: %w", name, namespace, err)
	}
	for writes := 1; ; writes++ {
		object, err := secrets.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return failed(err)
		}
		state, err := parseState(object)
		if err != nil {
			return failed(&stateError{err})
		}
		if !change(state) {
			return nil
		}
		content := base64.StdEncoding.EncodeToString(state.Marshal())
		if err := unstructured.SetNestedField(object.Object, content, "data", endpoint.StateFile); err != nil {
			return failed(err)
		}
		_, err = secrets.Update(ctx, object, metav1.UpdateOptions{FieldManager: runstatus.FieldManager})
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) || writes == maxStateWrites:
			return failed(err)
		}
	}
}

func parseState(secret *unstructured.Unstructured) (*endpoint.State, error) {
	encoded, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		return nil, err
	}
	content, err := base64.StdEncoding.DecodeString(encoded[endpoint.StateFile])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", endpoint.StateFile, err)
	}
	return endpoint.ParseState(content)
}

// stateError is that of a Secret whose content is no state.
type stateError struct{ err error }

func (e *stateError) Error() string { return e.err.Error() }
func (e *stateError) Unwrap() error { return e.err }

// isUnusable reports whether an object cannot be used until somebody creates it, corrects it, or grants access to it.
func isUnusable(err error) bool {
	var unreadable *stateError
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || errors.As(err, &unreadable)
}

// runEnded reports whether a run of this pod has ended: the lock of its folder is free. resource is kind/namespace/name, and
// comes from a state that other operators write. The folders lie beside that of this call.
func (r *runner) runEnded(resource string) bool {
	parts := strings.Split(resource, "/")
	if len(parts) != 3 || resource == r.resourceID() {
		return true // The caller has the lock of its own resource.
	}
	if _, known := r.files.settings.Kinds[parts[0]]; !known || parts[1] != r.files.namespace || len(validation.IsDNS1123Subdomain(parts[2])) > 0 {
		return true
	}
	folders := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Clean(r.call.dir))))
	lock, err := lockFolder(filepath.Join(folders, parts[0], parts[1], parts[2]))
	if lock == nil {
		return errors.Is(err, os.ErrNotExist)
	}
	_ = lock.Close()
	return true
}

// resourceID returns kind/namespace/name of the resource.
func (r *runner) resourceID() string {
	return r.files.kindName + "/" + r.files.namespace + "/" + r.files.name
}
