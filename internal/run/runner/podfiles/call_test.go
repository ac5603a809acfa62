package podfiles

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestCallsOfAnsibleOperator(t *testing.T) {
	tests := map[string]struct {
		args string
		want Call
		bad  bool
	}{
		"usual":      {args: "run /d --rotate-artifacts 20 -p /p.yml -i 42", want: Call{"/d", "/p.yml", "42"}},
		"verbose":    {args: "run /d --rotate-artifacts 20 -p /p.yml -i 42 -vvv", want: Call{"/d", "/p.yml", "42"}},
		"negative":   {args: "run /d --rotate-artifacts -1 -p /p.yml -i 42", want: Call{"/d", "/p.yml", "42"}},
		"a role":     {args: "run /d --rotate-artifacts 20 --role r -i 42", bad: true},
		"no ident":   {args: "run /d -p /p.yml", bad: true},
		"no value":   {args: "run /d -p /p.yml -i", bad: true},
		"no folder":  {args: "run -p /p.yml -i 42", bad: true},
		"two folder": {args: "run /d /e -p /p.yml -i 42", bad: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseCall(strings.Fields(test.args))
			if (err != nil) != test.bad || got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestArtifactsLimit(t *testing.T) {
	for annotation, want := range map[string]int{"": 7, "3": 3, "0": 1, "-5": 1, "100": 20, "1.5": 7, "99999999999999999999": 7} {
		if got := ArtifactsLimit(annotation, 7); got != want {
			t.Errorf("%q: got %d, want %d", annotation, got, want)
		}
	}
}

func TestArtifactsOfSkippedCalls(t *testing.T) {
	a := Artifacts(filepath.Join(t.TempDir(), "artifacts"))
	names := func() []string {
		entries, err := os.ReadDir(string(a))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	apiserver.Must(t, a.End("10")) // Nothing ran yet.
	if got := names(); got != nil {
		t.Errorf("without a run there is %v", got)
	}
	for i, run := range []string{"3", "1", "2"} { // From the oldest.
		apiserver.Must(t, os.Mkdir(filepath.Join(string(a), run), 0o700))
		at := time.Unix(int64(1000+i), 0)
		apiserver.Must(t, os.Chtimes(filepath.Join(string(a), run), at, at))
	}
	latest := filepath.Join(string(a), "latest")
	apiserver.Must(t, os.Symlink(filepath.Join(string(a), "gone"), latest))
	apiserver.Must(t, a.End("11"))
	apiserver.Must(t, a.End("12"))
	if got, want := names(), []string{"1", "12", "2", "3", "latest"}; !slices.Equal(got, want) {
		t.Errorf("after two skips: %v, want %v", got, want)
	}
	if target, err := os.Readlink(filepath.Join(string(a), "12")); err != nil || target != "2" {
		t.Errorf("the skipped call leads to %q, %v", target, err)
	}
	apiserver.Must(t, os.Remove(latest))
	apiserver.Must(t, os.Symlink(filepath.Join(string(a), "12"), latest)) // As ansible-operator does after the call.
	apiserver.Must(t, a.End("13"))
	if target, err := filepath.EvalSymlinks(latest); err != nil || filepath.Base(target) != "2" {
		t.Errorf("before ansible-operator changes it, latest leads to %q, %v", target, err)
	}
	apiserver.Must(t, a.Rotate(2))
	apiserver.Must(t, a.RemoveLinks())
	if got, want := names(), []string{"1", "12", "2", "latest"}; !slices.Equal(got, want) {
		t.Errorf("after the rotation: %v, want %v", got, want)
	}
}

// A process opens the file, another one that has the lock removes the folder, and a third one makes it again.
func TestLockOfARemovedFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "one")
	apiserver.Must(t, os.Mkdir(dir, 0o700))
	path := filepath.Join(dir, "run.lock")
	first, err := LockFolder(dir)
	if first == nil || err != nil {
		t.Fatal(first, err)
	}
	late, err := os.Open(path)
	apiserver.Must(t, err)
	defer func() { _ = late.Close() }()
	if held, err := lockFile(late, path); held || err != nil {
		t.Error("another process has the lock", held, err)
	}
	apiserver.Must(t, os.RemoveAll(dir))
	apiserver.Must(t, first.Close())
	if held, err := lockFile(late, path); held || err != nil {
		t.Error("the file does not exist any more", held, err)
	}
	apiserver.Must(t, os.Mkdir(dir, 0o700))
	second, err := LockFolder(dir)
	if second == nil || err != nil {
		t.Fatal(second, err)
	}
	if held, err := lockFile(late, path); held || err != nil {
		t.Error("it is another file", held, err)
	}
	apiserver.Must(t, second.Close())
}
