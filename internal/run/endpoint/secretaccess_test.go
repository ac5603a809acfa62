package endpoint_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

func TestOwnSecrets(t *testing.T) {
	c := &model.Collection{Domain: "acme", Name: "files"}
	for _, name := range []string{
		render.EndpointsSecretName(c), render.DependenciesSecretName(c), credential.KeySecret, keeper.Secret,
		endpoint.StateName(&v2beta2.ZosEndpoint{Spec: v2beta2.ZosEndpointSpec{Host: "lpar1"}}),
	} {
		if !endpoint.IsOwnSecret(name) {
			t.Errorf("%s belongs to the product", name)
		}
	}
	for _, name := range []string{"db", "zosendpoint-admin", "collection-operator-registry", "files-endpoints", "acme-files-operator"} {
		if endpoint.IsOwnSecret(name) {
			t.Errorf("%s belongs to somebody else", name)
		}
	}
}

func TestAccessToSecrets(t *testing.T) {
	access := endpoint.SecretAccess{Operator: "acme-files-operator", Kept: []string{"former", "acme-files-operator-endpoints"}}
	labelled := func(value string) *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeOpaque, ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v2beta2.LabelRuntime: value}}}
	}
	of := func(secretType corev1.SecretType, keys ...string) *corev1.Secret {
		secret := &corev1.Secret{Type: secretType, Data: map[string][]byte{}}
		for _, key := range keys {
			secret.Data[key] = []byte("x")
		}
		return secret
	}
	token := of(corev1.SecretTypeServiceAccountToken, "token")
	labelledToken, registryToken := labelled("true"), labelled("true")
	labelledToken.Type = corev1.SecretTypeServiceAccountToken
	registryToken.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	credentialLabel := of(corev1.SecretTypeOpaque, "username", "password")
	credentialLabel.Labels = map[string]string{endpoint.LabelCredential: "true", v2beta2.LabelRuntime: "another-operator"}

	for name, tc := range map[string]struct {
		name   string
		secret *corev1.Secret
		want   endpoint.Access
	}{
		"for all operators":                {"db", labelled("true"), endpoint.AccessAllowed},
		"for this operator":                {"db", labelled("acme-files-operator"), endpoint.AccessAllowed},
		"for another operator":             {"db", labelled("acme-files2-operator"), endpoint.AccessNeedsLabel},
		"empty label":                      {"db", labelled(""), endpoint.AccessNeedsLabel},
		"no label":                         {"db", of(corev1.SecretTypeOpaque, "password"), endpoint.AccessNeedsLabel},
		"certificate":                      {"db", of(corev1.SecretTypeTLS, "tls.key"), endpoint.AccessNeedsLabel},
		"missing":                          {"db", nil, endpoint.AccessNeedsLabel},
		"ssh-auth":                         {"db", of(corev1.SecretTypeSSHAuth, "ssh-privatekey"), endpoint.AccessAllowed},
		"labelled as a credential":         {"db", credentialLabel, endpoint.AccessAllowed},
		"old clients":                      {"db", of(corev1.SecretTypeOpaque, "username", "ssh_key"), endpoint.AccessAllowed},
		"old clients, passphrase":          {"db", of(corev1.SecretTypeOpaque, "username", "ssh_key", "passphrase"), endpoint.AccessAllowed},
		"old clients, one key more":        {"db", of(corev1.SecretTypeOpaque, "username", "ssh_key", "token"), endpoint.AccessNeedsLabel},
		"old clients, without a key":       {"db", of(corev1.SecretTypeOpaque, "username", "passphrase"), endpoint.AccessNeedsLabel},
		"old clients, of another type":     {"db", of("example.com/keys", "username", "ssh_key"), endpoint.AccessNeedsLabel},
		"kept":                             {"former", of(corev1.SecretTypeOpaque, "password"), endpoint.AccessAllowed},
		"kept, missing":                    {"former", nil, endpoint.AccessAllowed},
		"kept, now labelled for another":   {"former", labelled("another-operator"), endpoint.AccessNeedsLabel},
		"kept, a token":                    {"former", token, endpoint.AccessNever},
		"own, labelled":                    {"acme-files-operator-endpoints", labelled("true"), endpoint.AccessNever},
		"own, missing":                     {"it-things-operator-dependencies", nil, endpoint.AccessNever},
		"token":                            {"db", token, endpoint.AccessNeedsLabel},
		"token, labelled":                  {"db", labelledToken, endpoint.AccessNever},
		"token of a registry, labelled":    {"db", registryToken, endpoint.AccessNever},
		"no name of a Secret":              {"../secrets/db", nil, endpoint.AccessNoName},
		"no name of a Secret, with spaces": {" acme-files-operator-endpoints", nil, endpoint.AccessNoName},
	} {
		t.Run(name, func(t *testing.T) {
			if got := access.Of(tc.name, tc.secret); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestRefusalOfSecrets(t *testing.T) {
	access, long := endpoint.SecretAccess{Operator: "acme-files-operator"}, strings.Repeat("a", 253)
	for name, tc := range map[string]struct {
		names map[endpoint.Access][]string
		want  string
	}{
		"one": {map[endpoint.Access][]string{endpoint.AccessNeedsLabel: {"db"}},
			`Secret "db" does not exist, or does not allow its use by operators: it needs the label zoscb.ibm.com/runtime=true, or ` +
				`zoscb.ibm.com/runtime=acme-files-operator: kubectl label secret db -n zos zoscb.ibm.com/runtime=acme-files-operator`},
		"two": {map[endpoint.Access][]string{endpoint.AccessNeedsLabel: {"a", "b"}},
			`Secrets "a", "b" do not exist, or do not allow their use by operators: they need the label zoscb.ibm.com/runtime=true, or ` +
				`zoscb.ibm.com/runtime=acme-files-operator: kubectl label secret a b -n zos zoscb.ibm.com/runtime=acme-files-operator`},
		"too long": {map[endpoint.Access][]string{endpoint.AccessNeedsLabel: {long, long, "b"}},
			`Secret "` + long + `" does not exist, or does not allow its use by operators: it needs the label zoscb.ibm.com/runtime=true, or ` +
				`zoscb.ibm.com/runtime=acme-files-operator: kubectl label secret ` + long + ` -n zos zoscb.ibm.com/runtime=acme-files-operator`},
		"never": {map[endpoint.Access][]string{endpoint.AccessNeedsLabel: {"a"}, endpoint.AccessNever: {"own", "token"}},
			`Secret "own" belongs to Collection Operator or has the token of an account, and is never given to playbooks: name another one`},
		"no name": {map[endpoint.Access][]string{endpoint.AccessNoName: {"$(reboot)\n" + strings.Repeat("x", 1<<20)}},
			`"$(reboot) ` + strings.Repeat("x", 286) + ` ..." is not the name of a Secret: change the variable`},
	} {
		t.Run(name, func(t *testing.T) {
			got := access.Refusal("zos", tc.names)
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if len(got) > 1024 {
				t.Errorf("%d bytes: status would cut it", len(got))
			}
		})
	}
}
