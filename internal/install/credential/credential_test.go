package credential_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func newSecret(t *testing.T, namespace, name string, data map[string][]byte) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	apiserver.Must(t, apiserver.Shared(t).Client.Create(t.Context(), secret))
}

var errAway = errors.New("away")

func TestOnlyALabelledSecretIsACredential(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": false, "false": false, "True": false} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{credential.Label: value}}, Type: corev1.SecretTypeSSHAuth}
		if credential.Is(secret) != want {
			t.Errorf("label %q: got %t", value, !want)
		}
	}
	if credential.Is(&corev1.Secret{}) {
		t.Error("a Secret without labels is one")
	}
}

// A name is only ever that of a Secret in the namespace.
func TestRead(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, other := server.Namespace(t), server.Namespace(t)
	newSecret(t, namespace, "a", map[string][]byte{"key": []byte("own")})
	newSecret(t, other, "a", map[string][]byte{"key": []byte("foreign")})
	secret, err := credential.Read(t.Context(), server.Client, namespace, "a")
	if err != nil || string(secret.Data["key"]) != "own" {
		t.Errorf("got %s, %v", secret.Data, err)
	}
	for _, name := range []string{"none", "", ".", "../../" + other + "/secrets/a", "../secrets/a", "a/", "A", "a?x=y", strings.Repeat("a", 254)} {
		var asked []string
		reader := interceptor.NewClient(server.Client, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				asked = append(asked, key.Name)
				return c.Get(ctx, key, object, options...)
			},
		})
		secret, err := credential.Read(t.Context(), reader, namespace, name)
		if !apierrors.IsNotFound(err) || secret != nil && len(secret.Data) > 0 {
			t.Errorf("%q: got %v, %v", name, secret, err)
		}
		if wantsQuestion := name == "none"; wantsQuestion != slices.Contains(asked, name) {
			t.Errorf("%q: the API server was asked for %q", name, asked)
		}
	}
}

func TestRequire(t *testing.T) {
	server := apiserver.Shared(t)
	namespace := server.Namespace(t)
	newSecret(t, namespace, "a", nil)
	require := func(reader client.Reader, name string) error {
		_, err := credential.Require(t.Context(), reader, namespace, "spec.signatureSecret", name, "Missing")
		return err
	}
	apiserver.Must(t, require(server.Client, "a"))
	for _, name := range []string{"none", "../a"} {
		var failed *status.Error
		err := require(server.Client, name)
		want := `spec.signatureSecret: Secret "` + name + `" does not exist in namespace "` + namespace + `"`
		if !errors.As(err, &failed) || failed.Reason != "Missing" || err.Error() != want || failed.RetryAfter != intervals.Missing {
			t.Errorf("got %#v, want %s", err, want)
		}
	}
	failing := interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errAway
		},
	})
	var failed *status.Error
	if err := require(failing, "a"); !errors.Is(err, errAway) || errors.As(err, &failed) || !strings.Contains(err.Error(), `Secret "a"`) {
		t.Errorf("a read that fails: %v", err)
	}
}

// All managers of a namespace have the key that the first of them made.
func TestLoadKey(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, writes := server.Namespace(t), &apiserver.Writes{}
	c := server.NewClient(t, writes.Of(server.Config))
	first, err := credential.LoadKey(t.Context(), c, c, namespace)
	apiserver.Must(t, err)
	writes.Take()
	again, err := credential.LoadKey(t.Context(), c, c, namespace)
	if err != nil || len(first) == 0 || !bytes.Equal(first, again) || len(writes.Take()) > 0 {
		t.Errorf("again: %v, written %v", err, writes.Take())
	}
	other, err := credential.LoadKey(t.Context(), c, c, server.Namespace(t))
	if err != nil || bytes.Equal(first, other) {
		t.Errorf("another namespace has the same key, %v", err)
	}
}

func TestLoadKeyThatAnotherManagerMakes(t *testing.T) {
	server := apiserver.Shared(t)
	namespace := server.Namespace(t)
	key := bytes.Repeat([]byte("k"), 32)
	late := interceptor.NewClient(server.Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			newSecret(t, namespace, credential.KeySecret, map[string][]byte{credential.KeyField: key})
			return c.Create(ctx, object, options...)
		},
	})
	if got, err := credential.LoadKey(t.Context(), late, server.Client, namespace); err != nil || !bytes.Equal(got, key) {
		t.Errorf("got %x, %v", got, err)
	}
}

// Another key would let each refused credential be tried once more, which may revoke a user ID.
func TestAKeyThatIsNotValidIsNotReplaced(t *testing.T) {
	server := apiserver.Shared(t)
	for name, data := range map[string]map[string][]byte{
		"empty": nil, "short": {credential.KeyField: []byte("short")}, "long": {credential.KeyField: bytes.Repeat([]byte("k"), 33)},
	} {
		namespace, writes := server.Namespace(t), &apiserver.Writes{}
		newSecret(t, namespace, credential.KeySecret, data)
		c := server.NewClient(t, writes.Of(server.Config))
		_, err := credential.LoadKey(t.Context(), c, c, namespace)
		if err == nil || !strings.Contains(err.Error(), "restore it from a backup") || len(writes.Take()) > 0 {
			t.Errorf("%s: got %v", name, err)
		}
		if len(data[credential.KeyField]) > 0 && strings.Contains(err.Error(), string(data[credential.KeyField])) {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
}

func TestLoadKeyThatFails(t *testing.T) {
	server := apiserver.Shared(t)
	for doing, funcs := range map[string]interceptor.Funcs{
		"reading": {Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errAway
		}},
		"creating": {Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return errAway }},
	} {
		namespace := server.Namespace(t)
		c := interceptor.NewClient(server.Client, funcs)
		if key, err := credential.LoadKey(t.Context(), c, c, namespace); !errors.Is(err, errAway) || key != nil || !strings.HasPrefix(err.Error(), doing+" Secret") {
			t.Errorf("%s: %v", doing, err)
		}
		if _, err := credential.Read(t.Context(), server.Client, namespace, credential.KeySecret); !apierrors.IsNotFound(err) {
			t.Errorf("%s: the Secret is there: %v", doing, err)
		}
	}
}
