package manager

import (
	"os"
	"testing"
)

func TestProxyIsNotUsedForTheCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		variables         map[string]string
		noProxy, operator string
	}{
		"no proxy": {map[string]string{"NO_PROXY": ".x"}, ".x", ""},
		"a proxy": {
			map[string]string{"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": ".x"}, ".x,10.96.0.1,.svc,.cluster.local,localhost,127.0.0.1,::1",
			"HTTPS_PROXY=http://proxy:1\nNO_PROXY=.x\n",
		},
		"in lower case": {
			map[string]string{"http_proxy": "http://proxy:1", "no_proxy": ".x"}, ".x,10.96.0.1,.svc,.cluster.local,localhost,127.0.0.1,::1",
			"HTTP_PROXY=http://proxy:1\nNO_PROXY=.x\n",
		},
		"with a password": {map[string]string{"HTTPS_PROXY": "http://u:p@proxy:1"}, "10.96.0.1,.svc,.cluster.local,localhost,127.0.0.1,::1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
				t.Setenv(key, tc.variables[key])
			}
			t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
			var s options
			if err := s.useProxy(); err != nil {
				t.Fatal(err)
			}
			if got := os.Getenv("NO_PROXY"); got != tc.noProxy || s.render.Environment != tc.operator {
				t.Errorf("NO_PROXY is %q, operators get %q", got, s.render.Environment)
			}
		})
	}
}
