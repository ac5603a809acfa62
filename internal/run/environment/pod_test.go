package environment

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testPod has a runtime ConfigMap with these files, and an image with an authority.
func testPod(t *testing.T, files map[string]string) Pod {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	system := filepath.Join(dir, "system.crt")
	write(t, system, "SYSTEM")
	return Pod{RuntimeDir: dir, Bundle: filepath.Join(dir, "bundle.crt"), SystemBundles: []string{filepath.Join(dir, "absent"), system}}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func complete(t *testing.T, p Pod, environ ...string) []string {
	t.Helper()
	got, err := p.Complete(environ)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestComplete(t *testing.T) {
	const cluster = ".svc,.cluster.local,localhost,127.0.0.1,::1"
	proxies := map[string]string{KeyVariables: "HTTPS_PROXY=http://proxy:3128\nNO_PROXY=.example.com\nLD_PRELOAD=/evil.so\n"}
	for name, tc := range map[string]struct {
		files         map[string]string
		environ, want []string
	}{
		"nothing": {environ: []string{"A=1"}, want: []string{"A=1"}},
		"a proxy of the manager": {
			files: proxies, environ: []string{"KUBERNETES_SERVICE_HOST=10.96.0.1"},
			want: []string{
				"KUBERNETES_SERVICE_HOST=10.96.0.1", "HTTPS_PROXY=http://proxy:3128", "https_proxy=http://proxy:3128",
				"NO_PROXY=.example.com,10.96.0.1," + cluster, "no_proxy=.example.com,10.96.0.1," + cluster,
			},
		},
		"a proxy of the pod, in either spelling": {
			files: proxies, environ: []string{"https_proxy=http://own:1"},
			want: []string{"https_proxy=http://own:1", "NO_PROXY=.example.com," + cluster, "no_proxy=.example.com," + cluster},
		},
		"a proxy of the pod alone": {
			environ: []string{"HTTP_PROXY=http://own:1", "no_proxy=a, .svc"},
			want:    []string{"HTTP_PROXY=http://own:1", "no_proxy=a, .svc,.cluster.local,localhost,127.0.0.1,::1", "NO_PROXY=a, .svc,.cluster.local,localhost,127.0.0.1,::1"},
		},
		"no proxy for anything": {
			environ: []string{"HTTP_PROXY=http://own:1", "NO_PROXY=*", "no_proxy=*"}, want: []string{"HTTP_PROXY=http://own:1", "NO_PROXY=*", "no_proxy=*"},
		},
		"an empty variable of the pod": {
			files: proxies, environ: []string{"HTTPS_PROXY="}, want: []string{"HTTPS_PROXY=", "NO_PROXY=.example.com", "no_proxy=.example.com"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPod(t, tc.files)
			got := complete(t, p, tc.environ...)
			if diff := cmp.Diff(tc.want, got[:len(got)-1]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again := complete(t, p, got...)
			slices.Sort(got)
			slices.Sort(again)
			if diff := cmp.Diff(got, again); diff != "" {
				t.Errorf("a second time (-first +second):\n%s", diff)
			}
		})
	}
}

// A run gets what the ConfigMap has now, not what it had when the pod started.
func TestCompleteFollowsChanges(t *testing.T) {
	p := testPod(t, map[string]string{KeyVariables: "HTTPS_PROXY=http://old:1\n", KeyAuthorities: "ADDED"})
	before := complete(t, p, "PIP_CERT=/own.crt")
	for _, want := range []string{"PIP_CERT=/own.crt", "SSL_CERT_FILE=" + p.Bundle, "REQUESTS_CA_BUNDLE=" + p.Bundle, "https_proxy=http://old:1"} {
		if !slices.Contains(before, want) {
			t.Errorf("no %s in %q", want, before)
		}
	}
	if bundle, err := os.ReadFile(p.Bundle); string(bundle) != "SYSTEM\nADDED" {
		t.Errorf("bundle %q, %v", bundle, err)
	}
	write(t, filepath.Join(p.RuntimeDir, KeyVariables), "HTTPS_PROXY=http://new:1\n")
	write(t, filepath.Join(p.RuntimeDir, KeyAuthorities), "OTHER")
	if after := complete(t, p, before...); !slices.Contains(after, "HTTPS_PROXY=http://new:1") || !slices.Contains(after, "https_proxy=http://new:1") {
		t.Errorf("got %q", after)
	}
	if bundle, err := os.ReadFile(p.Bundle); string(bundle) != "SYSTEM\nOTHER" {
		t.Errorf("bundle %q, %v", bundle, err)
	}
	for _, key := range []string{KeyVariables, KeyAuthorities} {
		if err := os.Remove(filepath.Join(p.RuntimeDir, key)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"PIP_CERT=/own.crt", "ZOSCB_ENVIRONMENT=taken"}, complete(t, p, before...)); diff != "" {
		t.Errorf("without both (-want +got):\n%s", diff)
	}
}

func TestCompleteSaysWhatItCannotRead(t *testing.T) {
	p := testPod(t, map[string]string{KeyVariables: strings.Repeat("x", maxVariablesBytes+1)})
	got, err := p.Complete([]string{"A=1"})
	if err == nil || !strings.Contains(err.Error(), "larger than 65536 bytes") || !slices.Equal(got, []string{"A=1", "ZOSCB_ENVIRONMENT=taken"}) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestForOperators(t *testing.T) {
	for name, tc := range map[string]struct {
		variables map[string]string
		want      string
		withheld  []string
	}{
		"none":                            {nil, "", nil},
		"without a proxy":                 {map[string]string{"NO_PROXY": ".x"}, "", nil},
		"both spellings":                  {map[string]string{"HTTP_PROXY": "http://a:1", "https_proxy": "b:2", "NO_PROXY": ".x"}, "HTTP_PROXY=http://a:1\nHTTPS_PROXY=b:2\nNO_PROXY=.x\n", nil},
		"with a password":                 {map[string]string{"HTTPS_PROXY": "http://u:p@a:1", "HTTP_PROXY": "u:p@b"}, "", []string{"HTTP_PROXY", "HTTPS_PROXY"}},
		"with a password, and exceptions": {map[string]string{"HTTPS_PROXY": "http://u:p@a:1", "NO_PROXY": ".x"}, "NO_PROXY=.x\n", []string{"HTTPS_PROXY"}},
		"with a line break":               {map[string]string{"HTTPS_PROXY": "http://a\nLD_PRELOAD=x"}, "", []string{"HTTPS_PROXY"}},
		"no URL":                          {map[string]string{"HTTPS_PROXY": "http://[a"}, "", []string{"HTTPS_PROXY"}},
		"one with, one without":           {map[string]string{"HTTP_PROXY": "http://a:1", "HTTPS_PROXY": "http://u@a:1"}, "HTTP_PROXY=http://a:1\n", []string{"HTTPS_PROXY"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, withheld := ForOperators(func(key string) string { return tc.variables[key] })
			if got != tc.want || !slices.Equal(withheld, tc.withheld) {
				t.Errorf("got %q, withheld %q", got, withheld)
			}
		})
	}
}

// Programs must not be pointed at a file that does not exist: they would trust nothing.
func TestCompleteWithoutABundle(t *testing.T) {
	p := testPod(t, map[string]string{KeyAuthorities: "ADDED"})
	written := p.Bundle
	p.Bundle = filepath.Join(p.RuntimeDir, "missing", "bundle.crt")
	if got, err := p.Complete([]string{"A=1"}); err == nil || !slices.Equal(got, []string{"A=1", "ZOSCB_ENVIRONMENT=taken"}) {
		t.Errorf("got %q, %v", got, err)
	}
	p.Bundle = written
	complete(t, p)
	// What was written before counts if it cannot be replaced.
	write(t, filepath.Join(p.RuntimeDir, KeyAuthorities), "OTHER")
	if err := os.Chmod(p.RuntimeDir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(p.RuntimeDir, 0o700) })
	got, err := p.Complete(nil)
	if os.Geteuid() != 0 && err == nil || !slices.Contains(got, "SSL_CERT_FILE="+written) {
		t.Errorf("got %q, %v", got, err)
	}
}
