package intervals

import (
	"strings"
	"testing"
	"time"
)

func TestFlag(t *testing.T) {
	poll, missing := Poll, Missing
	t.Cleanup(func() { Poll, Missing = poll, missing })
	if err := (Flag{}).Set("missing=2s,poll=500ms"); err != nil || Missing != 2*time.Second || Poll != 500*time.Millisecond {
		t.Errorf("%v: missing %s, poll %s", err, Missing, Poll)
	}
	for list, want := range map[string]string{
		"":            `no interval ""`,
		"mising=2s":   `no interval "mising": there are authority-overlap, conflict`,
		"missing":     `interval missing: "" is not a positive duration`,
		"missing=2":   "not a positive duration",
		"missing=-2s": "not a positive duration",
	} {
		if err := (Flag{}).Set(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v", list, err)
		}
	}
}
