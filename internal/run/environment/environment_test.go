package environment

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTake(t *testing.T) {
	taken, ignored := Take([]string{
		"PATH=/usr/bin", "ANSIBLE_TIMEOUT=30", "LICENSE=own", "EMPTY=",
		"ZOSCB_FROM_HTTPS_PROXY=http://user:pass@proxy\nnext line=1", "ZOSCB_FROM_TEAM_KEY=a=b", "ZOSCB_FROM_LICENSE=from", "ZOSCB_FROM_EMPTY=from",
		"ZOSCB_FROM_PATH=/evil", "ZOSCB_FROM_ansible_config=/evil", "ZOSCB_FROM_a.b=1", "ZOSCB_FROM_=1",
	})
	if diff := cmp.Diff([]string{
		"ANSIBLE_TIMEOUT=30", "EMPTY=", "HTTPS_PROXY=http://user:pass@proxy\nnext line=1", "LICENSE=own", "PATH=/usr/bin", "TEAM_KEY=a=b",
		"ZOSCB_ENVIRONMENT=taken",
	}, taken); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "PATH", "a.b", "ansible_config"}, ignored); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// What decides which code runs, and with which rights, is never taken from an object of the namespace.
func TestReserved(t *testing.T) {
	for _, key := range []string{
		"PATH", "HOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT", "ANSIBLE_CONFIG", "ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_ANYTHING", "LD_PRELOAD",
		"LD_LIBRARY_PATH", "BASH_ENV", "ENV", "NSS_WRAPPER_PASSWD", "ZOSCB_SETTINGS", "ZOSCB_ANSIBLE_RUNNER", "ZOSCB_ENVIRONMENT", "WATCH_NAMESPACE",
		"POD_NAME", "POD_UID", "KUBERNETES_SERVICE_HOST", "KUBECONFIG", "SSH_AUTH_SOCK", "SSH_ASKPASS", "MAX_CONCURRENT_RECONCILES", "GIT_SSH_COMMAND",
		"RUNNER_OMIT_EVENTS", "K8S_AUTH_HOST", "OPENSSL_CONF", "XDG_CONFIG_HOME", "PERL5OPT", "TINI_SUBREAPER", "LOCPATH", "CDPATH", "PS4", "LC_ALL", "LANG",
		"PIP_CONFIG_FILE", "PIP_TARGET", "pip_extra_index_url",
	} {
		if _, ignored := Take([]string{Prefix + key + "=x"}); !slices.Equal(ignored, []string{key}) {
			t.Errorf("%s is taken over", key)
		}
	}
	for _, key := range []string{"HTTPS_PROXY", "no_proxy", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE", "APP_PATH", "MY_ANSIBLE_X", "HOMEPAGE", "AWS_REGION", "PIP_INDEX_URL", "PIP_CERT"} {
		if _, ignored := Take([]string{Prefix + key + "=x"}); len(ignored) > 0 {
			t.Errorf("%s is ignored", key)
		}
	}
}
