package manager

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

var usual = []string{"--runtime-image=packaged", "--artifact-url=http://x", "--forbidden-networks=10.0.0.0/8", "--fetch-timeout=5s"}

func invoke(t *testing.T, environment map[string]string, arguments ...string) *invocation {
	t.Helper()
	i, err := newInvocation(arguments, func(name string) (string, bool) {
		value, set := environment[name]
		return value, set
	})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestTheConfigMapWins(t *testing.T) {
	i := invoke(t, map[string]string{"COLLECTION_OPERATOR_FETCH_TIMEOUT": "1s", "COLLECTION_OPERATOR_MAX_KINDS": "3000"}, usual...)
	before, err := i.with(nil)
	if err != nil || before.settings.fetchTimeout != 5*time.Second || before.settings.budgets.kinds.Total != 3000 || before.data == nil {
		t.Errorf("without a ConfigMap: %+v, %v", before, err)
	}
	c, err := i.with(map[string]string{
		"fetch-timeout": "7s", "forbidden-networks": "172.16.0.0/12 192.168.0.0/16", "runtimeImage": "mine", "zap-log-level": "debug", "HTTPS_PROXY": "http://proxy",
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.settings
	if s.fetchTimeout != 7*time.Second || len(s.guard.Forbidden) != 2 || s.render.RuntimeImage != "mine" || s.budgets.kinds.Total != 3000 || s.log.Level == nil {
		t.Errorf("got %+v", s)
	}
	again, err := i.with(c.data)
	if err != nil || !c.equals(again) || c.equals(before) || c.hash() != again.hash() || c.hash() == before.hash() {
		t.Errorf("equal settings are not, or others are: %v", err)
	}
	delete(again.environment, "HTTPS_PROXY")
	if c.equals(again) {
		t.Error("another proxy needs a new start")
	}
}

func TestAllProblemsOfTheConfigMapAreReported(t *testing.T) {
	_, err := invoke(t, nil, usual...).with(map[string]string{
		"fetch-timeuot": "1s", "endpoint-probe-interval": "soon", "forbidden-networks": "10.0.0.0/8,everything", "leader-elect": "false",
		"max-kinds-per-namespace": "9000", "catalog-address": "x:1", "runtime-defaults": "{image: x}",
	})
	for _, want := range []string{
		"key fetch-timeuot: there is no such setting", `key endpoint-probe-interval: invalid argument "soon"`, `key forbidden-networks: invalid argument "everything"`,
		"key leader-elect: it cannot be changed while the manager runs", "--max-kinds-per-namespace must be at least 1, and --max-kinds at least that",
		"--catalog-bind-address and --catalog-address must be set together", "--runtime-defaults: image is set by --runtime-image",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

func TestVariablesInTheConfigMapAreTheLast(t *testing.T) {
	variable := map[string]string{"COLLECTION_OPERATOR_FETCH_TIMEOUT": "1s", "COLLECTION_OPERATOR_MAX_KINDS": "3000", "COLLECTION_OPERATOR_MAX_WORKERS": "3"}
	c, err := invoke(t, map[string]string{"COLLECTION_OPERATOR_MAX_KINDS": "4000"}, usual...).with(variable)
	if err != nil || c.settings.fetchTimeout != 5*time.Second || c.settings.budgets.kinds.Total != 4000 || c.settings.budgets.workers.Total != 3 {
		t.Errorf("got %s, %d, %d, %v", c.settings.fetchTimeout, c.settings.budgets.kinds.Total, c.settings.budgets.workers.Total, err)
	}
}

func TestFlagsOfThePodExist(t *testing.T) {
	var s options
	flags := s.newFlags()
	for _, name := range flagsOfPod {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
}

func TestWrongArgumentsEndTheManager(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, argument := range []string{"--fetch-timeuot=1s", "--fetch-timeout=soon"} {
		if _, err := newInvocation([]string{argument}, none); err == nil {
			t.Errorf("%s is accepted", argument)
		}
	}
}

func parse(t *testing.T, environment map[string]string, args ...string) (options, error) {
	t.Helper()
	var s options
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := setFromEnvironment(flags, func(name string) (string, bool) {
		value, set := environment[name]
		return value, set
	})
	return s, err
}

func TestEveryFlagHasAnEnvironmentVariable(t *testing.T) {
	s, err := parse(t, map[string]string{
		"COLLECTION_OPERATOR_FETCH_TIMEOUT":         "7s",
		"COLLECTION_OPERATOR_FETCH_MAX_BYTES":       "12",
		"COLLECTION_OPERATOR_ALLOW_LOCAL_ADDRESSES": "true",
		"COLLECTION_OPERATOR_FORBIDDEN_NETWORKS":    "10.0.0.0/8,\n 192.168.0.0/16 ",
		"COLLECTION_OPERATOR_RUNTIME_ARCHITECTURES": "s390x,amd64",
		"COLLECTION_OPERATOR_STORAGE_DIR":           "",
		"COLLECTION_OPERATOR_ZAP_LOG_LEVEL":         "debug",
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.fetchTimeout != 7*time.Second || s.fetchMaxBytes != 12 || !s.guard.AllowLocal || len(s.guard.Forbidden) != 2 ||
		s.architectures != "s390x,amd64" || s.storageDir != "/opt/collections" || s.log.Level == nil {
		t.Errorf("got %+v", s)
	}
}

func TestTheCommandLineWins(t *testing.T) {
	s, err := parse(t, map[string]string{
		"COLLECTION_OPERATOR_FETCH_TIMEOUT":      "7s",
		"COLLECTION_OPERATOR_FORBIDDEN_NETWORKS": "10.0.0.0/8 192.168.0.0/16",
	}, "--fetch-timeout=1s", "--forbidden-networks=172.16.0.0/12")
	if err != nil || s.fetchTimeout != time.Second || len(s.guard.Forbidden) != 1 {
		t.Errorf("got %s and %v, error %v", s.fetchTimeout, s.guard.Forbidden, err)
	}
}

func TestWrongVariablesAreNamed(t *testing.T) {
	_, err := parse(t, map[string]string{
		"COLLECTION_OPERATOR_FETCH_TIMEOUT":      "soon",
		"COLLECTION_OPERATOR_FORBIDDEN_NETWORKS": "10.0.0.0/8,everything",
		"COLLECTION_OPERATOR_LEADER_ELECT":       "perhaps",
	})
	for _, want := range []string{
		`environment variable COLLECTION_OPERATOR_FETCH_TIMEOUT: invalid argument "soon"`,
		`environment variable COLLECTION_OPERATOR_FORBIDDEN_NETWORKS: invalid argument "everything"`,
		`environment variable COLLECTION_OPERATOR_LEADER_ELECT: invalid argument "perhaps"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
}

func TestUnknownVariablesAreFound(t *testing.T) {
	var s options
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s.addFlags(flags)
	got := unknownVariables([]string{
		"COLLECTION_OPERATOR_NETWORKS_FORBIDDEN=10.0.0.0/8", "COLLECTION_OPERATOR_FORBIDDEN_NETWORKS=10.0.0.0/8", "COLLECTION_OPERATOR_SKIP_POLICIES=x", "PATH=/bin",
		"COLLECTION_OPERATOR_ARTIFACTS_SERVICE_HOST=10.0.0.1", "COLLECTION_OPERATOR_ARTIFACTS_SERVICE_PORT=80", "COLLECTION_OPERATOR_ARTIFACTS_SERVICE_PORT_ARTIFACTS_HTTP=80",
		"COLLECTION_OPERATOR_ARTIFACTS_PORT=tcp://10.0.0.1:80", "COLLECTION_OPERATOR_ARTIFACTS_PORT_80_TCP=tcp://10.0.0.1:80", "COLLECTION_OPERATOR_ARTIFACTS_PORT_80_TCP_ADDR=10.0.0.1",
	}, flags, policiesCommand().Flags())
	if !slices.Equal(got, []string{"COLLECTION_OPERATOR_NETWORKS_FORBIDDEN"}) {
		t.Errorf("got %v", got)
	}
}
