package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

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
