package endpoint

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseCredential(t *testing.T) {
	labelled := metav1.ObjectMeta{Labels: map[string]string{LabelCredential: "true"}}
	data := func(pairs ...string) map[string][]byte {
		out := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			out[pairs[i]] = []byte(pairs[i+1])
		}
		return out
	}
	for name, tc := range map[string]struct {
		secret    corev1.Secret
		userKnown bool
		want      string
	}{
		"key":            {secret: corev1.Secret{Type: corev1.SecretTypeSSHAuth, Data: data("username", " U\n", "ssh-privatekey", "k", "passphrase", "p")}},
		"authors' tools": {secret: corev1.Secret{ObjectMeta: labelled, Data: data("username", "U", "ssh_key", "k")}},
		"not labelled":   {secret: corev1.Secret{Type: corev1.SecretTypeOpaque, Data: data("username", "U", "ssh_key", "k", "passphrase", "p")}},
		"one key more":   {secret: corev1.Secret{Type: corev1.SecretTypeOpaque, Data: data("username", "U", "ssh_key", "k", "password", "s3cret")}, want: "is not a credential"},
		"password":       {secret: corev1.Secret{ObjectMeta: labelled, Data: data("username", "U", "password", "p")}},
		"user elsewhere": {secret: corev1.Secret{ObjectMeta: labelled, Data: data("password", "p")}, userKnown: true},
		"no credential":  {secret: corev1.Secret{Data: data("username", "U", "password", "s3cret")}, want: "is not a credential"},
		"false label":    {secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{LabelCredential: ""}}}, want: "is not a credential"},
		"no user":        {secret: corev1.Secret{ObjectMeta: labelled, Data: data("password", "s3cret")}, want: "has no key username"},
		"neither":        {secret: corev1.Secret{ObjectMeta: labelled, Data: data("username", "s3cret")}, want: "has neither"},
		"key and password": {
			secret: corev1.Secret{ObjectMeta: labelled, Data: data("username", "U", "ssh-privatekey", "s3cret", "password", "s3cret")}, want: "has both",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseCredential(&tc.secret, tc.userKnown)
			switch {
			case tc.want == "" && (err != nil || !tc.userKnown && got.User != "U"):
				t.Errorf("%+v, %v", got, err)
			case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret")):
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func TestPersonalKeysDiffer(t *testing.T) {
	key := Key(strings.Repeat("k", KeyBytes))
	seen := map[string]bool{}
	for _, other := range []Key{key, key.In("a"), key.Personal("a"), key.Personal("b")} {
		if seen[string(other)] || len(other) != KeyBytes {
			t.Errorf("%x", other)
		}
		seen[string(other)] = true
	}
}
