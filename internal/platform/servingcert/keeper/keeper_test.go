package keeper

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
)

// A manager reaches others by their address, and trusts the present bundle, also after it has changed.
func TestClientConfig(t *testing.T) {
	settings := servingcert.Settings{
		Names: []string{"archives.example.svc"}, AuthorityValidity: time.Hour, CertificateValidity: 5 * time.Minute, Overlap: time.Minute,
	}
	issue := func(names ...string) *servingcert.State {
		t.Helper()
		state := &servingcert.State{}
		settings.Names = names
		if _, err := state.Rotate(time.Now(), settings); err != nil {
			t.Fatal(err)
		}
		return state
	}
	served, own := &Keeper{}, &Keeper{ServerName: "archives.example.svc"}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = served.ServerConfig()
	server.StartTLS()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: own.ClientConfig(), DisableKeepAlives: true}}
	get := func() string {
		response, err := client.Get(server.URL)
		if err != nil {
			return err.Error()
		}
		_ = response.Body.Close()
		return ""
	}
	expect := func(message string) {
		t.Helper()
		if got := get(); message == "" && got != "" || !strings.Contains(got, message) {
			t.Errorf("got %q, want %q", got, message)
		}
	}
	first, second, other := issue("archives.example.svc"), issue("archives.example.svc"), issue("other.example.svc")
	served.use(first)
	expect("no serving certificate yet")
	own.use(first)
	expect("")
	served.use(second)
	expect("unknown authority")
	own.use(second)
	expect("")
	served.use(other)
	own.use(other)
	expect("archives.example.svc")
}
