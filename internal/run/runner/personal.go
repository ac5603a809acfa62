package runner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Reasons of waiting for the credential of a user.
const (
	// reasonPersonalMissing means that the resource names no Secret.
	reasonPersonalMissing endpoint.Reason = "PersonalCredentialMissing"
	// reasonPersonalInvalid means that the Secret does not exist, or is not a credential.
	reasonPersonalInvalid endpoint.Reason = "PersonalCredentialInvalid"
	// reasonPersonalUnreadable means that the operator may not read the Secret.
	reasonPersonalUnreadable endpoint.Reason = "PersonalCredentialUnreadable"
	// reasonPersonalUnprotected means that anybody who may change the resource could name the Secret of somebody else.
	reasonPersonalUnprotected endpoint.Reason = "PersonalCredentialUnprotected"
)

// personalPolicy is the ValidatingAdmissionPolicy that decides who may name a Secret.
const personalPolicy = "collection-operator-personal-credentials"

// personal is the credential of a user, for one run.
type personal struct {
	// endpoint is the one that it is for.
	endpoint   string
	credential endpoint.Credential
	// folder is in memory, and has what the run gets. It is named after the run.
	folder string
}

// takePersonal reads the credential that a resource names. It does nothing if the installation has the credential of the endpoint.
// Annotation and spec are those of the same version of the resource, which is the one that begin makes the run of.
func (r *runner) takePersonal(ctx context.Context, live *unstructured.Unstructured, name string, l *logon) (*waiting, error) {
	if l.personal == nil {
		return nil, nil
	}
	namespace, secretName := live.GetNamespace(), live.GetAnnotations()[endpoint.AnnotationCredential]
	if secretName == "" {
		return r.waitsFor(live, reasonPersonalMissing, fmt.Sprintf("runs on ZosEndpoint %s use personal credentials, and the resource names none: "+
			"set annotation %s to the name of a Secret in namespace %s that you may read", name, endpoint.AnnotationCredential, namespace))
	}
	isProtected, err := r.isProtected(ctx, secretName)
	if err != nil {
		return nil, err
	}
	if !isProtected {
		return r.waitsFor(live, reasonPersonalUnprotected, fmt.Sprintf("the cluster does not check who may use Secret %s: an administrator must apply "+
			"ValidatingAdmissionPolicy %s of config/policy and its binding", secretName, personalPolicy))
	}
	object, err := r.lookUp(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), secretName)
	switch {
	case apierrors.IsForbidden(err):
		r.out.note("%v", err)
		return r.waitsFor(live, reasonPersonalUnreadable, fmt.Sprintf("the operator may not read Secret %s in namespace %s: if it stays so, "+
			"see the SubOperatorConfig and the log of the manager, which grants it", secretName, namespace))
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", secretName, err)
	case object == nil:
		return r.waitsFor(live, reasonPersonalInvalid, fmt.Sprintf("Secret %s, which annotation %s names, does not exist in namespace %s: create it, or change the annotation",
			secretName, endpoint.AnnotationCredential, namespace))
	}
	credential, err := parsePersonal(object, l.userKnown)
	if err != nil {
		return r.waitsFor(live, reasonPersonalInvalid, fmt.Sprintf("Secret %s, which annotation %s names, %v", secretName, endpoint.AnnotationCredential, err))
	}
	if credential.User != "" {
		l.user = credential.User
	}
	l.credential = l.personal.Credential(l.user, credential.PrivateKey, credential.Passphrase, credential.Password)
	r.personal = &personal{endpoint: name, credential: credential, folder: r.personalFolder(live.GetUID(), r.call.ident)}
	return nil, nil
}

func parsePersonal(object *unstructured.Unstructured, userKnown bool) (endpoint.Credential, error) {
	secret := &corev1.Secret{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret); err != nil {
		return endpoint.Credential{}, errors.New("cannot be decoded") // The error may have a part of the content.
	}
	credential, err := endpoint.ParseCredential(secret, userKnown)
	if err == nil && credential.User != "" && !endpoint.IsUser(credential.User) {
		err = errors.New("has a username with characters that are not allowed")
	}
	return credential, err
}

// isProtected reports whether the API server decides who may name a Secret in the resource: it refuses a dry run that names another
// one, because operators must not do that. A dry run changes nothing.
func (r *runner) isProtected(ctx context.Context, secretName string) (bool, error) {
	another := "a"
	if secretName == another {
		another = "b"
	}
	changes := map[string]any{"metadata": map[string]any{"annotations": map[string]any{endpoint.AnnotationCredential: another}}}
	content, err := json.Marshal(changes)
	if err != nil {
		return false, err
	}
	_, err = r.resource.client.Patch(ctx, r.resource.name, types.MergePatchType, content,
		metav1.PatchOptions{FieldManager: runstatus.FieldManager, DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '"+personalPolicy+"'"):
		return true, nil
	}
	return false, fmt.Errorf("find out whether policy %s is in effect: %w", personalPolicy, err)
}

// personalFolder returns the folder of the credential of a run. A playbook that outlives its gate never finds what a later run gets.
// The path is short, because ssh has sockets in it, whose paths have at most 107 bytes.
func (r *runner) personalFolder(uid types.UID, run string) string {
	sum := sha256.Sum256([]byte(string(uid) + "/" + run))
	return filepath.Join(r.files.stateDir, "p", hex.EncodeToString(sum[:])[:10])
}

// logonVariables are those of Ansible with which the variables of an endpoint would log on as somebody else.
var logonVariables = []string{
	"ansible_ssh_user", "ansible_password", "ansible_ssh_pass", "ansible_ssh_password", "ansible_private_key_file", "ansible_ssh_private_key_file",
	"ansible_private_key", "ansible_ssh_private_key", "ansible_private_key_passphrase", "ansible_ssh_private_key_passphrase",
}

// write writes what the installation has of the endpoint, and the credential, for this user alone.
func (p *personal) write(endpointsDir string) error {
	if err := os.RemoveAll(p.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(p.endpoints(), 0o700); err != nil {
		return err
	}
	variables := map[string]json.RawMessage{}
	if err := readJSON(filepath.Join(endpointsDir, p.endpoint+"_vars.yaml"), &variables); err != nil {
		return err
	}
	for _, name := range logonVariables {
		delete(variables, name)
	}
	if p.credential.User != "" {
		user, err := json.Marshal(p.credential.User)
		if err != nil {
			return err
		}
		variables["ansible_user"] = user
	}
	content, err := json.Marshal(variables)
	if err != nil {
		return err
	}
	knownHosts, err := readFile(filepath.Join(endpointsDir, p.endpoint+"_known_hosts"))
	if err != nil {
		return err
	}
	for suffix, content := range map[string][]byte{
		"_vars.yaml": content, "_known_hosts": knownHosts,
		"_key": p.credential.PrivateKey, "_passphrase": p.credential.Passphrase, "_password": p.credential.Password,
	} {
		if len(content) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(p.endpoints(), p.endpoint+suffix), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (p *personal) endpoints() string { return filepath.Join(p.folder, "endpoints") }

// environment lets the run find its credential instead of the installation's endpoints, and have copies and connections of its own.
func (p *personal) environment() []string {
	return []string{
		"ZOSCB_ENDPOINTS_DIR=" + p.endpoints(), "ZOSCB_STATE_DIR=" + filepath.Join(p.folder, "state"), "ANSIBLE_SSH_CONTROL_PATH_DIR=" + p.folder,
	}
}

// forgetPersonal ends the connections of a run, and removes its credential.
func (r *runner) forgetPersonal() {
	if err := killOrphans(r.intervals.Grace, true); err != nil {
		r.out.note("end the connections of the run: %v", err)
	}
	if err := os.RemoveAll(r.personal.folder); err != nil {
		r.out.note("remove the credential of the run: %v", err)
	}
}
