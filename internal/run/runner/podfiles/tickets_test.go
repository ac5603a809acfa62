package podfiles

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

var now = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

func TestTickets(t *testing.T) {
	all := NewTickets(t.TempDir(), 2*time.Second, time.Minute)
	behind := func(uid types.UID, since time.Time) Ahead {
		t.Helper()
		n, err := all.Ahead("host:22", uid, Ticket{Since: since, Endpoint: "lpar1"}, now)
		apiserver.Must(t, err)
		return n
	}
	if n := behind("a", now); n != (Ahead{}) {
		t.Fatalf("%v are ahead without tickets", n)
	}
	for uid, content := range map[types.UID]Ticket{
		"b": {Since: now.Add(-time.Minute), Next: now.Add(time.Minute), Shared: true},
		"c": {Since: now.Add(-time.Minute), Next: now.Add(-all.grace), Shared: true},
		"d": {Since: now.Add(-time.Minute), Next: now.Add(-all.grace - time.Millisecond), Shared: true},
		"e": {Since: now.Add(-time.Minute), Next: now.Add(time.Minute), Endpoint: "lpar2"},
		"f": {Since: now, Next: now.Add(time.Minute), Endpoint: "lpar1"},
		"g": {Since: now.Add(time.Second), Next: now.Add(time.Minute), Shared: true},
		"h": {Since: now.Add(-time.Minute), Next: now.Add(-all.lifetime - time.Millisecond), Shared: true},
	} {
		apiserver.Must(t, all.Write("host:22", uid, content))
	}
	apiserver.Must(t, all.Write("other:22", "b", Ticket{Since: now.Add(-time.Minute), Next: now.Add(time.Minute), Shared: true}))
	apiserver.Must(t, os.WriteFile(filepath.Join(filepath.Dir(all.path("host:22", "b")), ".new-1"), nil, 0o600))
	apiserver.Must(t, os.WriteFile(all.path("host:22", "i"), []byte("{"), 0o600))
	for uid, want := range map[types.UID]Ahead{"a": {Shared: 2}, "b": {Shared: 1}, "f": {Shared: 2}, "z": {Shared: 2, Endpoint: 1}} {
		if n := behind(uid, now); n != want {
			t.Errorf("%v are ahead of %s, want %v", n, uid, want)
		}
	}
	for name, uid := range map[string]types.UID{"that nobody uses": "h", "that cannot be read": "i"} {
		if _, err := os.Stat(all.path("host:22", uid)); !os.IsNotExist(err) {
			t.Errorf("the ticket %s is still there: %v", name, err)
		}
	}

	apiserver.Must(t, all.Remove("b", "other:22"))
	if n := behind("a", now); n != (Ahead{Shared: 1}) {
		t.Errorf("%v are ahead after a ticket was removed", n)
	}
	if own := all.Read("other:22", "b"); own.Since.IsZero() {
		t.Errorf("the other ticket is %+v", own)
	}
	apiserver.Must(t, all.Remove("b", ""))
	if own := all.Read("other:22", "b"); !own.Since.IsZero() {
		t.Errorf("the other ticket is %+v", own)
	}
	apiserver.Must(t, all.Remove("b", ""))
}

func TestSince(t *testing.T) {
	status, own := now.Add(-time.Minute), now.Add(-time.Hour)
	for name, tc := range map[string]struct {
		times []time.Time
		want  time.Time
	}{
		"new":                      {nil, now},
		"status and ticket":        {[]time.Time{status, own}, status},
		"ticket alone":             {[]time.Time{{}, own}, own},
		"the clock was ahead":      {[]time.Time{now.Add(time.Hour), own}, own},
		"both clocks were ahead":   {[]time.Time{now.Add(time.Hour), now.Add(time.Minute)}, now},
		"seconds, as status has":   {[]time.Time{status.Add(time.Millisecond)}, status},
		"a later part of a second": {[]time.Time{now.Add(time.Millisecond)}, now},
	} {
		if got := Since(now.Add(999*time.Millisecond), tc.times...); !got.Equal(tc.want) {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
