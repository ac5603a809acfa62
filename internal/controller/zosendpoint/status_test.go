package zosendpoint

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

func TestPinned(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	key := probe.FormatHostKey(hostKey)
	e := &v2beta2.ZosEndpoint{}
	e.Status.HostKeys, e.Status.PinnedFor = []string{key}, "lpar1:22"
	pinned := formatPinned(e)
	for name, test := range map[string]struct {
		text, address string
		want          []string
	}{
		"as it was written": {pinned, "lpar1:22", []string{key}},
		"another address":   {pinned, "lpar1:2022", nil},
		"two":               {pinned + "\n" + pinned, "lpar1:22", []string{key, key}},
		"no key":            {"lpar1:22 text", "lpar1:22", nil},
		"an option":         {"lpar1:22 @cert-authority * " + key, "lpar1:22", nil},
		"many":              {strings.Repeat(pinned+"\n", 100), "lpar1:22", slices.Repeat([]string{key}, maxPinnedKeys)},
		"none":              {"", "lpar1:22", nil},
	} {
		if diff := cmp.Diff(test.want, parsePinned(test.text, test.address)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	e.Spec.HostKeys = []string{key}
	if got := formatPinned(e); got != "" {
		t.Errorf("keys of the spec are recorded: %q", got)
	}
}
