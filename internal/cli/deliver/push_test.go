package deliver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
)

func TestBearerToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plugin := &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "/bin/sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		Args: []string{"-c", `echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"from-plugin"}}'`},
	}
	for name, tt := range map[string]struct {
		config rest.Config
		want   string
	}{
		"a token":    {rest.Config{BearerToken: "given"}, "given"},
		"a file":     {rest.Config{BearerTokenFile: file}, "from-file"},
		"a plug-in":  {rest.Config{ExecProvider: plugin}, "from-plugin"},
		"a password": {rest.Config{Username: "u", Password: "p"}, ""},
		"nothing":    {rest.Config{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tt.config.Host = "https://127.0.0.1:1"
			got, err := bearerToken(t.Context(), &tt.config)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestPushRefusesFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "2 arguments"},
		{[]string{"a.tar.gz", "oc", "--manager-certificate-authority", "x"}, "--manager-url"},
		{[]string{"a.tar.gz", "oc", "--service-account", "x", "--token-file", "y"}, "service-account"},
	} {
		code, stdout, stderr := tool(t, append([]string{"push"}, test.args...)...)
		if code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q ended with %d and printed %q", test.args, code, stderr)
		}
	}
}
