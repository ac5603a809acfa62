package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runner/process"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// secrets decides which Secrets a run may use.
type secrets struct{ *scope }

// maxFollowed limits the resources whose Secrets a run waits for.
const maxFollowed = 1000

// await returns why a run may not start: it would read a Secret that does not allow it. The Secrets are those that its variables
// name, and those of resources that it refers to, which playbooks read too. The run gets these variables: it does not start if the resource
// has changed since it was read.
func (r secrets) await(ctx context.Context, live *unstructured.Unstructured) error {
	if !r.files.Settings.NamesSecrets() {
		return nil
	}
	variables, _ := r.supplyOf(live).Declared(gate.ReceivedSpec(r.files.Given))
	names, err := r.secretNames(ctx, variables)
	if len(names) == 0 || err != nil {
		return err
	}
	access := endpoint.SecretAccess{Operator: r.files.Settings.Operator}
	if access.Kept, err = r.files.KeptSecrets(); err != nil {
		return err
	}
	refused := map[endpoint.Access][]string{}
	for _, name := range names {
		secret, err := r.readSecret(ctx, name)
		if err != nil {
			return err
		}
		allowed := access.Of(name, secret)
		// A deletion playbook finds nothing to read, and often needs nothing: Secrets may be deleted together with their resource.
		if allowed == endpoint.AccessAllowed || allowed == endpoint.AccessNeedsLabel && secret == nil && r.files.Event == gate.EventDelete {
			continue
		}
		refused[allowed] = append(refused[allowed], name)
	}
	if len(refused) == 0 {
		return nil
	}
	return r.waitFor(live, reasonSecretNotAllowed, access.Refusal(r.files.Namespace, refused))
}

// secretNames returns the sorted names of the Secrets that variables of the resource name, and those of resources that it refers to.
func (r secrets) secretNames(ctx context.Context, variables map[string]any) ([]string, error) {
	names, next := r.files.Kind.SecretNames(variables), r.files.Kind.References(variables)
	followed := map[string]bool{}
	for ; len(next) > 0; next = next[1:] {
		reference := next[0]
		if followed[reference] {
			continue
		}
		if followed[reference] = true; len(followed) > maxFollowed {
			return nil, fmt.Errorf("the resource refers to more than %d others", maxFollowed)
		}
		plural, name, _ := strings.Cut(reference, "/")
		other, err := r.lookUp(ctx, kindResource(r.files, plural), name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", reference, err)
		}
		if other == nil {
			continue
		}
		id, kind := r.files.Identity(), r.files.Settings.Kind(plural)
		id.Kind, id.Name = other.GetKind(), name
		variables, _ := r.supply(kind, id, other).Declared(specOf(other))
		names, next = append(names, kind.SecretNames(variables)...), append(next, kind.References(variables)...)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// personalPolicy is the ValidatingAdmissionPolicy that decides who may name a Secret.
const personalPolicy = "collection-operator-personal-credentials"

// takePersonal reads the credential that a resource names. It does nothing if the installation has the credential of the endpoint.
// Annotation and spec are those of the same version of the resource, which is the one that begin makes the run of.
func (r secrets) takePersonal(ctx context.Context, live *unstructured.Unstructured, name string, l *podfiles.Logon) (*podfiles.Personal, error) {
	if l.Personal == nil {
		return nil, nil
	}
	namespace, secretName := live.GetNamespace(), live.GetAnnotations()[endpoint.AnnotationCredential]
	if secretName == "" {
		return nil, r.waitFor(live, reasonPersonalMissing, fmt.Sprintf("runs on ZosEndpoint %s use personal credentials, and the resource names none: "+
			"set annotation %s to the name of a Secret in namespace %s that you may read", name, endpoint.AnnotationCredential, namespace))
	}
	isProtected, err := r.isProtected(ctx, secretName)
	if err != nil {
		return nil, err
	}
	if !isProtected {
		return nil, r.waitFor(live, reasonPersonalUnprotected, fmt.Sprintf("the cluster does not check who may use Secret %s: an administrator must apply "+
			"ValidatingAdmissionPolicy %s of config/policy and its binding", secretName, personalPolicy))
	}
	object, err := r.lookUp(ctx, corev1.SchemeGroupVersion.WithResource("secrets"), secretName)
	switch {
	case apierrors.IsForbidden(err):
		r.out.Note("%v", err)
		return nil, r.waitFor(live, reasonPersonalUnreadable, fmt.Sprintf("the operator may not read Secret %s in namespace %s: if it stays so, "+
			"see the SubOperatorConfig and the log of the manager, which grants it", secretName, namespace))
	case err != nil:
		return nil, fmt.Errorf("read Secret %s: %w", secretName, err)
	case object == nil:
		return nil, r.waitFor(live, reasonPersonalInvalid, fmt.Sprintf("Secret %s, which annotation %s names, does not exist in namespace %s: create it, or change the annotation",
			secretName, endpoint.AnnotationCredential, namespace))
	}
	credential, err := parsePersonal(object, l.UserKnown)
	if err != nil {
		return nil, r.waitFor(live, reasonPersonalInvalid, fmt.Sprintf("Secret %s, which annotation %s names, %v", secretName, endpoint.AnnotationCredential, err))
	}
	if credential.User != "" {
		l.User = credential.User
	}
	l.Credential = l.Personal.Credential(l.User, credential.PrivateKey, credential.Passphrase, credential.Password)
	return &podfiles.Personal{Endpoint: name, Credential: credential, Folder: r.files.PersonalFolder(live.GetUID(), r.call.Ident)}, nil
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
func (r secrets) isProtected(ctx context.Context, secretName string) (bool, error) {
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

// forget ends the connections of a run, and removes its credential.
func (r secrets) forget(p *podfiles.Personal) {
	if err := process.KillOrphans(r.intervals.Grace, true); err != nil {
		r.out.Note("end the connections of the run: %v", err)
	}
	if err := os.RemoveAll(p.Folder); err != nil {
		r.out.Note("remove the credential of the run: %v", err)
	}
}
