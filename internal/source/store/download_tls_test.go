package store

import (
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A pod trusts the manager's authorities and no others, not even those of the system.
func TestDownloadTrustsOnlyTheGivenAuthorities(t *testing.T) {
	content := []byte("archive")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	defer server.Close()
	own := x509.NewCertPool()
	own.AddCert(server.Certificate())
	for name, tt := range map[string]struct {
		authorities *x509.CertPool
		trusted     bool
	}{
		"its own": {own, true}, "none": {x509.NewCertPool(), false}, "those of the system": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := Download(t.Context(), DownloadOptions{
				URL: server.URL, Authorities: tt.authorities, Digest: digestOf(content), Dir: t.TempDir(), MinWait: time.Millisecond, TrustWait: time.Millisecond,
			})
			var untrusted *UntrustedError
			switch {
			case tt.trusted && (err != nil || file.Digest != digestOf(content)):
				t.Errorf("got %v, %v", file, err)
			case !tt.trusted && (!errors.As(err, &untrusted) || !strings.Contains(err.Error(), "signed by an authority that is not trusted") ||
				!strings.Contains(err.Error(), "ca.crt")):
				t.Errorf("got %v", err)
			}
		})
	}
}
