package controller_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// newAuthority returns the certificate of an authority in PEM.
func newAuthority(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	apiserver.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	apiserver.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}))
}

func TestTrustedAuthorities(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, recorder, faults := server.Namespace(t), events.NewFakeRecorder(100), &apiserver.Faults{}
	trusted := &trustedauthorities.TrustedAuthorities{Reader: faults.Around(server.Client, ""), Recorder: recorder, Namespace: namespace}
	if trusted.Known() || trusted.PEM() != "" || trusted.Certificates() != nil {
		t.Error("something is known before it is read")
	}
	faults.Set("get ConfigMap", errAway)
	if err := trusted.Load(t.Context()); !errors.Is(err, errAway) || trusted.Known() {
		t.Errorf("got %v", err)
	}
	faults.Clear()
	if apiserver.Must(t, trusted.Load(t.Context())); !trusted.Known() || trusted.PEM() != "" {
		t.Errorf("there is no ConfigMap: %v, %q", trusted.Known(), trusted.PEM())
	}
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	bundle := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: trustedauthorities.TrustedAuthoritiesName}, Data: map[string]string{trustedauthorities.TrustedAuthoritiesKey: first},
	}
	apiserver.Must(t, server.Client.Create(t.Context(), bundle))
	if apiserver.Must(t, trusted.Load(t.Context())); !strings.Contains(trusted.PEM(), strings.TrimSpace(first)) || len(trusted.Certificates()) != 1 {
		t.Errorf("got %q", trusted.PEM())
	}

	mgr, err := newManager(server)
	apiserver.Must(t, err)
	apiserver.Must(t, trusted.SetupWithManager(mgr))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	write := func(text string) {
		bundle.Data[trustedauthorities.TrustedAuthoritiesKey] = text
		apiserver.Must(t, server.Client.Update(t.Context(), bundle))
	}
	write(second)
	apiserver.Await(t, "the second authority is trusted", func() bool { return strings.Contains(trusted.PEM(), strings.TrimSpace(second)) })
	// One that cannot be used does not count, and is told.
	write("nonsense")
	if event := <-recorder.Events; !strings.Contains(event, "the authorities that were read before are still trusted") || !strings.Contains(trusted.PEM(), strings.TrimSpace(second)) {
		t.Errorf("got %s, %q", event, trusted.PEM())
	}
	apiserver.Must(t, server.Client.Delete(t.Context(), bundle))
	apiserver.Await(t, "no authority is trusted", func() bool { return trusted.PEM() == "" && trusted.Known() })
	stop()
	apiserver.Must(t, <-ended)
}

// After a restart, operators keep what they have.
func TestTrustedAuthoritiesThatAreNotUsable(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, recorder := server.Namespace(t), events.NewFakeRecorder(100)
	apiserver.Must(t, server.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: trustedauthorities.TrustedAuthoritiesName}, Data: map[string]string{trustedauthorities.TrustedAuthoritiesKey: "nonsense"},
	}))
	trusted := &trustedauthorities.TrustedAuthorities{Reader: server.Client, Recorder: recorder, Namespace: namespace}
	apiserver.Must(t, trusted.Load(t.Context()))
	if event := <-recorder.Events; trusted.Known() || !strings.Contains(event, "operators keep the authorities that they have") {
		t.Errorf("got %s", event)
	}
}
