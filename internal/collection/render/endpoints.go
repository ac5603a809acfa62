package render

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Endpoint is one z/OS system that an installation may run playbooks against, with the credential to log on with.
type Endpoint struct {
	// Name of the ZosEndpoint, a DNS-1123 subdomain.
	Name string
	// Local runs playbooks in the operator's pod. Host, Port, User, HostKeys and credentials are ignored.
	Local bool
	// Host is a name or an address of the SSH server. Port 0 means 22.
	Host string
	Port int32
	// User to log on with. It may be empty if Variables set ansible_user.
	User string
	// Variables are Ansible host variables, as returned by Variables. They take precedence over Host, Port and User.
	Variables map[string]any
	// HostKeys are lines of a known_hosts file without the host name: "<type> <base64>".
	HostKeys []string
	// PrivateKey, with Passphrase if it is encrypted, or Password. All of them may be empty.
	PrivateKey, Passphrase, Password []byte
	// CredentialID identifies User with the credential in the state of the security domain, see endpoint.Key.Credential.
	CredentialID string
	// PersonalKey, if not empty, lets each run use the credential that its resource names, and no other. The operator identifies
	// these credentials with the key.
	PersonalKey []byte
	// Refusal, if not empty, makes every run against the endpoint fail with this text, without a connection. The Secret then
	// has no credential for the endpoint.
	Refusal string
}

// Suffixes of the Secret's keys, after the name of the endpoint. Names contain no underscore.
const (
	suffixVars       = "_vars.yaml"
	suffixKnownHosts = "_known_hosts"
	suffixKey        = "_key"
	suffixPassphrase = "_passphrase"
	suffixPassword   = "_password"
	suffixCredential = "_credential"
	suffixRefusal    = "_refusal"
	suffixPersonal   = "_personal"
)

// Lasting is the content of the Secret with the endpoints that must not change as long as the installation exists.
type Lasting struct {
	// RecordKey signs the installation's records of runs.
	RecordKey []byte
	// Kept is the content of gate.KeptSecretsFile, or nil if it is not known yet.
	Kept []byte
}

// EndpointsSecret renders the Secret with the endpoints of an installation, and the namespace of their ZosEndpoints. The order of
// endpoints does not matter. An endpoint with an invalid user or invalid host keys gets a refusal, and does not affect the others.
// EndpointsSecret fails if the name of an endpoint is invalid, or if the endpoints exceed the 1 MiB of a Secret.
func EndpointsSecret(c *model.Collection, namespace, endpointsNamespace string, endpoints []Endpoint, lasting Lasting) (
	*corev1.Secret, error) {
	if len(lasting.RecordKey) != gate.RecordKeyBytes {
		return nil, fmt.Errorf("the key of the records has %d bytes instead of %d", len(lasting.RecordKey), gate.RecordKeyBytes)
	}
	data := map[string][]byte{
		gate.RecordKeyFile:          bytes.Clone(lasting.RecordKey),
		gate.EndpointsNamespaceFile: []byte(endpointsNamespace),
	}
	if lasting.Kept != nil {
		data[gate.KeptSecretsFile] = bytes.Clone(lasting.Kept)
	}
	seen := map[string]bool{}
	for _, e := range endpoints {
		if err := checkEndpointName(e.Name); err != nil {
			return nil, err
		}
		if seen[e.Name] {
			return nil, fmt.Errorf("endpoint %s is listed twice", e.Name)
		}
		seen[e.Name] = true
		if err := addEndpoint(data, e); err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
	}
	size := 0
	for key, value := range data {
		size += len(key) + len(value)
	}
	if size >= corev1.MaxSecretSize {
		return nil, fmt.Errorf("the %d endpoints need %d bytes, and a Secret holds fewer than %d: map fewer endpoints, or give them fewer variables",
			len(endpoints), size, corev1.MaxSecretSize)
	}
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: objectMeta(c, namespace, EndpointsSecretName(c)),
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}, nil
}

// checkEndpointName rejects names that have a special meaning in an inventory, or are too long for a key of a Secret.
func checkEndpointName(name string) error {
	if slices.Contains([]string{"localhost", "all", "ungrouped", "127.0.0.1"}, name) {
		return fmt.Errorf("endpoint %s: the name has a meaning of its own in Ansible: choose another one", name)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("endpoint %q: %s", name, strings.Join(problems, "; "))
	}
	if limit := validation.DNS1123SubdomainMaxLength - len(suffixKnownHosts); len(name) > limit {
		return fmt.Errorf("endpoint %s: the name is longer than %d characters", name, limit)
	}
	return nil
}

func addEndpoint(data map[string][]byte, e Endpoint) error {
	refusal := e.refusal()
	vars, err := e.hostVars(refusal == "")
	if err != nil {
		return err
	}
	put := func(suffix string, value []byte) {
		if len(value) > 0 {
			data[e.Name+suffix] = bytes.Clone(value)
		}
	}
	put(suffixVars, vars)
	put(suffixRefusal, []byte(refusal))
	if e.Local || refusal != "" {
		return nil
	}
	put(suffixKnownHosts, []byte(e.knownHosts()))
	if len(e.PersonalKey) > 0 {
		put(suffixPersonal, e.PersonalKey)
		return nil
	}
	put(suffixKey, e.PrivateKey)
	put(suffixPassphrase, e.Passphrase)
	put(suffixPassword, e.Password)
	if len(e.PrivateKey) > 0 || len(e.Password) > 0 {
		put(suffixCredential, []byte(e.CredentialID))
	}
	return nil
}

// hostVars returns the endpoint's host variables as JSON. Ansible reads it as YAML, and no text can be mistaken for a
// number, a date or a boolean.
func (e Endpoint) hostVars(withUser bool) ([]byte, error) {
	vars := map[string]any{}
	if e.Local {
		vars["ansible_connection"] = "local"
	} else {
		vars["ansible_host"], vars["ansible_port"] = e.Host, e.port()
		if withUser && e.User != "" {
			vars["ansible_user"] = e.User
		}
	}
	maps.Copy(vars, e.Variables)
	out, err := JSON(vars, "  ")
	if err != nil {
		return nil, fmt.Errorf("variables: %w", err)
	}
	return append(out, '\n'), nil
}

func (e Endpoint) port() int32 { return cmp.Or(e.Port, v2beta2.DefaultSSHPort) }

var hostKey = regexp.MustCompile(`^[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,3}( [ -~]*)?$`)

// refusal returns the given refusal, or the reason why the endpoint cannot be used. It never contains the user name, which
// may be a misplaced password.
func (e Endpoint) refusal() string {
	switch {
	case e.Refusal != "" || e.Local:
		return e.Refusal
	case e.User != "" && !endpoint.IsUser(e.User):
		return v2beta2.ReasonCredentialInvalid + ": the credential's username has characters that are not allowed"
	}
	for i, key := range e.HostKeys {
		if !hostKey.MatchString(strings.TrimSpace(key)) {
			return fmt.Sprintf("%s: host key %d of endpoint %s is not of the form \"<type> <base64>\"",
				v2beta2.ReasonInvalidHostKeys, i, e.Name)
		}
	}
	return ""
}

func (e Endpoint) knownHosts() string {
	host := strings.ToLower(e.Host)
	if port := e.port(); port != v2beta2.DefaultSSHPort {
		host = fmt.Sprintf("[%s]:%d", host, port)
	}
	var lines strings.Builder
	for _, key := range e.HostKeys {
		fields := strings.Fields(key)
		fmt.Fprintf(&lines, "%s %s %s\n", host, fields[0], fields[1])
	}
	return lines.String()
}
