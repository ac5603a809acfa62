package mapping

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	zosendpoint "github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Endpoints returns the configuration of each endpoint of a mapping for the runtime, sorted by name. An endpoint that cannot
// be used yet has a refusal, with which its runs fail, and an entry in problems.
func (r *Resolver) Endpoints(ctx context.Context, soc *v2beta2.SubOperatorConfig, mapping v2beta2.NamespaceMapping) (
	endpoints []render.Endpoint, problems []error, err error) {
	list := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(soc.Namespace)); err != nil {
		return nil, nil, fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b v2beta2.ZosEndpoint) int { return strings.Compare(a.Name, b.Name) })
	problems = missingEndpoints(mapping, list.Items)
	for i := range list.Items {
		if !Allows(mapping, list.Items[i].Name) {
			continue
		}
		endpoint, err := r.endpoint(ctx, soc, &list.Items[i], mapping)
		switch {
		case status.Is(err):
			problems = append(problems, err)
		case err != nil:
			return nil, nil, err
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints, problems, nil
}

// Allows reports whether a mapping allows its namespace to use an endpoint.
func Allows(mapping v2beta2.NamespaceMapping, endpoint string) bool {
	return mapping.ZosEndpoints == nil || slices.ContainsFunc(*mapping.ZosEndpoints, func(e v2beta2.EndpointMapping) bool {
		return e.Name == endpoint
	})
}

func missingEndpoints(mapping v2beta2.NamespaceMapping, endpoints []v2beta2.ZosEndpoint) []error {
	if mapping.ZosEndpoints == nil {
		return nil
	}
	var problems []error
	for _, wanted := range *mapping.ZosEndpoints {
		if !slices.ContainsFunc(endpoints, func(e v2beta2.ZosEndpoint) bool { return e.Name == wanted.Name }) {
			problems = append(problems, status.Waiting(v2beta2.ReasonEndpointNotFound, status.Watched,
				"spec.mapping: namespace %q: ZosEndpoint %q does not exist", mapping.Namespace, wanted.Name))
		}
	}
	return problems
}

// credentialFor returns the credential that the mapping names for an endpoint, or else the endpoint's own.
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

// endpoint returns the configuration of an endpoint. With an error that has a reason, the configuration has a refusal.
func (r *Resolver) endpoint(
	ctx context.Context, soc *v2beta2.SubOperatorConfig, endpoint *v2beta2.ZosEndpoint, mapping v2beta2.NamespaceMapping,
) (render.Endpoint, error) {
	composed := render.Endpoint{
		Name: endpoint.Name, Local: endpoint.Spec.EndpointType == v2beta2.EndpointLocal,
		Host: endpoint.Spec.Host, Port: endpoint.Spec.EffectivePort(), HostKeys: KnownHostKeys(endpoint),
	}
	variables, err := render.Variables(endpoint.Spec.Variables)
	if err != nil {
		composed.Refusal = "EndpointInvalid: see ZosEndpoint " + endpoint.Name
		return composed, status.Waiting(v2beta2.ReasonInvalidVariables, status.Watched, "ZosEndpoint %q: %w", endpoint.Name, err)
	}
	composed.Variables = variables
	if composed.Local {
		return composed, nil
	}
	isPersonal, secret := soc.Spec.CredentialType == v2beta2.CredentialPersonal, ""
	if isPersonal {
		composed.PersonalKey = r.CredentialKey.Personal(mapping.Namespace)
	} else {
		secret = credentialFor(mapping, endpoint)
	}
	switch {
	case len(composed.HostKeys) == 0:
		composed.Refusal = "HostKeyUnknown: ZosEndpoint " + endpoint.Name + " has no host key yet: it was not reached, or set spec.hostKeys"
	case secret == "" && !isPersonal:
		composed.Refusal = "CredentialMissing: ZosEndpoint " + endpoint.Name + " has no credential: set its credentialName, or one in the SubOperatorConfig's mapping"
		return composed, nil
	}
	if secret == "" {
		return composed, nil
	}
	if err := r.readCredential(ctx, soc.Namespace, secret, &composed); err != nil {
		if status.Is(err) {
			composed.Refusal = "CredentialInvalid: " + err.Error()
		}
		return composed, err
	}
	return composed, nil
}

// readCredential sets user name, key or password, and what identifies them, from a credential Secret.
func (r *Resolver) readCredential(ctx context.Context, namespace, name string, endpoint *render.Endpoint) error {
	secret, err := r.readSecret(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	invalid := func(format string, args ...any) error {
		return status.Waiting(v2beta2.ReasonCredentialInvalid, status.Watched, "Secret %q for ZosEndpoint %q "+format, append([]any{name, endpoint.Name}, args...)...)
	}
	switch {
	case apierrors.IsNotFound(err):
		return invalid("does not exist in namespace %q", namespace)
	case err != nil:
		return fmt.Errorf("reading Secret %q: %w", name, err)
	}
	userVariable, userInVariables := endpoint.Variables["ansible_user"]
	read, err := zosendpoint.ParseCredential(secret, userInVariables)
	if err != nil {
		return invalid("%w", err)
	}
	endpoint.User, endpoint.PrivateKey, endpoint.Passphrase, endpoint.Password = read.User, read.PrivateKey, read.Passphrase, read.Password
	user := endpoint.User
	if userInVariables {
		user, _ = userVariable.(string)
	}
	endpoint.CredentialID = r.CredentialKey.In(namespace).Credential(user, endpoint.PrivateKey, endpoint.Passphrase, endpoint.Password)
	return nil
}

func (r *Resolver) readSecret(ctx context.Context, key types.NamespacedName) (*corev1.Secret, error) {
	if read, known := r.credentials[key]; known {
		return read.secret, read.err
	}
	secret, err := credential.Read(ctx, r.Reader, key.Namespace, key.Name)
	if r.credentials == nil {
		r.credentials = map[types.NamespacedName]readSecret{}
	}
	r.credentials[key] = readSecret{secret, err}
	return secret, err
}

// KnownHostKeys returns the host keys of the spec, or else the one that was pinned for the current host and port.
func KnownHostKeys(endpoint *v2beta2.ZosEndpoint) []string {
	if len(endpoint.Spec.HostKeys) > 0 {
		return endpoint.Spec.HostKeys
	}
	if endpoint.Status.PinnedFor != Address(endpoint) {
		return nil
	}
	return endpoint.Status.HostKeys
}

// Address returns the address of an endpoint as host:port.
func Address(endpoint *v2beta2.ZosEndpoint) string {
	return net.JoinHostPort(endpoint.Spec.Host, strconv.Itoa(int(endpoint.Spec.EffectivePort())))
}

// maxAbandoned is the maximum length of status.installations[].abandoned.
const maxAbandoned = 20

// maxNameBytes is the maximum length of a custom resource's name.
const maxNameBytes = 253

// Abandoned returns the latest custom resources of some kinds of an API group in a namespace that were removed without a run, at most
// maxAbandoned, the oldest first, by what the status of a SubOperatorConfig's ZosEndpoints says.
func (r *Resolver) Abandoned(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace, group string, kinds []string) ([]v2beta2.AbandonedInstance, error) {
	list := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, list, client.InNamespace(soc.Namespace)); err != nil {
		return nil, fmt.Errorf("listing ZosEndpoints: %w", err)
	}
	return abandonedOn(list.Items, namespace, group, kinds), nil
}

// abandonedOn takes entries without a group, which earlier versions wrote, for those of any group.
func abandonedOn(endpoints []v2beta2.ZosEndpoint, namespace, group string, kinds []string) []v2beta2.AbandonedInstance {
	var found []v2beta2.AbandonedInstance
	for i := range endpoints {
		for _, resource := range endpoints[i].Status.Abandoned {
			if resource.Namespace == namespace && (resource.Group == group || resource.Group == "") && slices.Contains(kinds, resource.Kind) {
				found = append(found, v2beta2.AbandonedInstance{
					Kind: resource.Kind, Name: printable.Line(resource.Name, maxNameBytes),
					ZosEndpoint: endpoints[i].Name, RemovedAt: resource.RemovedAt,
				})
			}
		}
	}
	slices.SortFunc(found, func(a, b v2beta2.AbandonedInstance) int {
		return cmp.Or(a.RemovedAt.Compare(b.RemovedAt.Time), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ZosEndpoint, b.ZosEndpoint))
	})
	return found[max(0, len(found)-maxAbandoned):]
}
