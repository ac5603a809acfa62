package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// labelCredential marks a Secret of any type as a credential that may be sent to endpoints and servers. Without it,
// whoever may create our objects could have any Secret of their namespace sent to a server of their own.
const labelCredential = "zoscb.ibm.com/credential"

func isCredential(secret *corev1.Secret) bool { return secret.Labels[labelCredential] == "true" }

// annotationRetry on a ZosEndpoint asks for another try with a credential that the system refused, whenever its text
// changes.
const annotationRetry = "zoscb.ibm.com/retry"

// Keys of a credential Secret beside those of its type kubernetes.io/ssh-auth.
const (
	keyUsername   = "username"
	keyPassphrase = "passphrase"
	keyPassword   = "password"
)

// composeEndpoints collects what the runtime has to know about each endpoint. An endpoint that cannot be used yet is
// told to the runtime as a refusal, so that its runs fail with the reason, and to the user on status.
func (r *SubOperatorConfigReconciler) composeEndpoints(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	list := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(soc.Namespace)); err != nil {
		return fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v2beta2.ZosEndpoint) int { return strings.Compare(a.Name, b.Name) })
	facts.endpoints = map[string][]render.Endpoint{}
	for _, mapping := range facts.mappings {
		facts.problems = append(facts.problems, missingEndpoints(mapping, list.Items)...)
		for i := range list.Items {
			if !allows(mapping, list.Items[i].Name) {
				continue
			}
			endpoint, err := r.composeEndpoint(ctx, soc, &list.Items[i], credentialFor(mapping, &list.Items[i]))
			var f *status.Error
			if err != nil && !errors.As(err, &f) {
				return err
			}
			if err != nil {
				facts.problems = append(facts.problems, err)
			}
			facts.endpoints[mapping.Namespace] = append(facts.endpoints[mapping.Namespace], endpoint)
		}
	}
	return nil
}

// followEndpoints brings endpoints and credentials to operators that are installed, before anything may refuse to change
// the rest of them, such as for a grant that was withdrawn: a key that was replaced or taken away must not stay in use.
// Where nothing of an operator is installed yet, nothing is written.
func (r *SubOperatorConfigReconciler) followEndpoints(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	var secrets []client.Object
	for _, mapping := range facts.mappings {
		name := types.NamespacedName{Namespace: mapping.Namespace, Name: render.EndpointsSecretName(facts.collection)}
		written := &metav1.PartialObjectMetadata{}
		written.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		if err := r.Client.Get(ctx, name, written); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading Secret %q: %w", name, err)
		} else if err != nil || !ownedBy(soc)(written) {
			continue
		}
		secret, err := render.EndpointsSecret(facts.collection, mapping.Namespace, facts.endpoints[mapping.Namespace])
		if err != nil {
			return status.Stalled(v2beta2.ReasonObjectRefused, err)
		}
		if err := r.claim(soc, secret); err != nil {
			return err
		}
		secrets = append(secrets, secret)
	}
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	if _, err := applier.Apply(ctx, secrets, ownedBy(soc)); err != nil {
		return applyFailure(err)
	}
	return nil
}

func missingEndpoints(mapping v2beta2.NamespaceMapping, endpoints []v2beta2.ZosEndpoint) []error {
	if mapping.ZosEndpoints == nil {
		return nil
	}
	var problems []error
	for _, wanted := range *mapping.ZosEndpoints {
		if !slices.ContainsFunc(endpoints, func(e v2beta2.ZosEndpoint) bool { return e.Name == wanted.Name }) {
			problems = append(problems, status.Waiting(v2beta2.ReasonEndpointNotFound, status.MissingInterval,
				"spec.mapping: namespace %q: ZosEndpoint %q does not exist", mapping.Namespace, wanted.Name))
		}
	}
	return problems
}

// credentialFor is the credential that the mapping names for an endpoint, else the endpoint's own.
func credentialFor(mapping v2beta2.NamespaceMapping, endpoint *v2beta2.ZosEndpoint) string {
	if mapping.ZosEndpoints != nil {
		for _, e := range *mapping.ZosEndpoints {
			if e.Name == endpoint.Name && e.CredentialName != "" {
				return e.CredentialName
			}
		}
	}
	return endpoint.Spec.CredentialName
}

// composeEndpoint returns the endpoint also with an error: then it carries a refusal.
func (r *SubOperatorConfigReconciler) composeEndpoint(ctx context.Context, soc *v2beta2.SubOperatorConfig, endpoint *v2beta2.ZosEndpoint, credential string) (render.Endpoint, error) {
	composed := render.Endpoint{
		Name: endpoint.Name, Local: endpoint.Spec.EndpointType == v2beta2.EndpointLocal,
		Host: endpoint.Spec.Host, Port: endpoint.Spec.EffectivePort(), HostKeys: knownHostKeys(endpoint),
		Retry: endpoint.Annotations[annotationRetry],
	}
	variables, err := render.Variables(endpoint.Spec.Variables)
	if err != nil {
		composed.Refusal = "EndpointInvalid: see ZosEndpoint " + endpoint.Name
		return composed, status.Waiting(v2beta2.ReasonInvalidVariables, status.MissingInterval, "ZosEndpoint %q: %w", endpoint.Name, err)
	}
	composed.Variables = variables
	switch {
	case composed.Local:
		return composed, nil
	case soc.Spec.CredentialType == v2beta2.CredentialPersonal:
		composed.Refusal = "PersonalCredentialsUnsupported: credentialType personal is not supported by this version, and a shared credential is never used instead"
		return composed, nil
	case len(composed.HostKeys) == 0:
		composed.Refusal = "HostKeyUnknown: ZosEndpoint " + endpoint.Name + " has no host key yet: it was not reached, or set spec.hostKeys"
	case credential == "":
		composed.Refusal = "CredentialMissing: ZosEndpoint " + endpoint.Name + " has no credential: set its credentialName, or one in the SubOperatorConfig's mapping"
		return composed, nil
	}
	if credential == "" {
		return composed, nil
	}
	if err := r.readCredential(ctx, soc.Namespace, credential, &composed); err != nil {
		var f *status.Error
		if errors.As(err, &f) {
			composed.Refusal = "CredentialInvalid: " + f.Error()
		}
		return composed, err
	}
	return composed, nil
}

// readCredential fills in user name and key or password from a Secret that is marked as a credential.
func (r *SubOperatorConfigReconciler) readCredential(ctx context.Context, namespace, name string, endpoint *render.Endpoint) error {
	secret, err := readSecret(ctx, r.Reader, namespace, name)
	invalid := func(format string, args ...any) error {
		return status.Waiting(v2beta2.ReasonCredentialInvalid, status.MissingInterval, "Secret %q for ZosEndpoint %q "+format, append([]any{name, endpoint.Name}, args...)...)
	}
	switch {
	case apierrors.IsNotFound(err):
		return invalid("does not exist in namespace %q", namespace)
	case err != nil:
		return fmt.Errorf("reading Secret %q: %w", name, err)
	case secret.Type != corev1.SecretTypeSSHAuth && !isCredential(secret):
		return invalid("is not a credential: give it the type %s or the label %s=true", corev1.SecretTypeSSHAuth, labelCredential)
	}
	_, userInVariables := endpoint.Variables["ansible_user"]
	endpoint.User = strings.TrimSpace(string(secret.Data[keyUsername]))
	endpoint.PrivateKey = secret.Data[corev1.SSHAuthPrivateKey]
	endpoint.Passphrase = secret.Data[keyPassphrase]
	endpoint.Password = secret.Data[keyPassword]
	switch {
	case endpoint.User == "" && !userInVariables:
		return invalid("has no key %s", keyUsername)
	case len(endpoint.PrivateKey) == 0 && len(endpoint.Password) == 0:
		return invalid("has neither %s nor %s", corev1.SSHAuthPrivateKey, keyPassword)
	case len(endpoint.PrivateKey) > 0 && len(endpoint.Password) > 0:
		return invalid("has both %s and %s: keep one", corev1.SSHAuthPrivateKey, keyPassword)
	}
	return nil
}

// knownHostKeys are those that the user gave, else the one that was pinned for the present host and port.
func knownHostKeys(endpoint *v2beta2.ZosEndpoint) []string {
	if len(endpoint.Spec.HostKeys) > 0 {
		return endpoint.Spec.HostKeys
	}
	if endpoint.Status.PinnedFor != address(endpoint) {
		return nil
	}
	return endpoint.Status.HostKeys
}
