package archive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/hostile"
)

// collectionEntries is laid out like the output of `ansible-galaxy collection build`.
var collectionEntries = []hostile.Entry{
	{Name: "MANIFEST.json", Body: "{}"},
	{Name: "FILES.json", Body: "{}"},
	{Name: "./operator-config.yml", Body: "name: demo\n"},
	{Name: "playbooks/", Type: tar.TypeDir, Mode: 0o755},
	{Name: "playbooks/create.yml", Body: "- hosts: all\n"},
	{Name: "playbooks/roles", Type: tar.TypeSymlink, Link: "../roles"},
	{Name: "roles/demo/files/run.sh", Body: "#!/bin/sh\n", Mode: 0o4755},
	{Name: "provision.yml", Type: tar.TypeSymlink, Link: "playbooks/create.yml"},
}

var testLimits = archive.Limits{TotalBytes: 4 << 20, FileBytes: 1 << 20, KeptBytes: 64 << 10, Entries: 12, Depth: 5, NameBytes: 60}

func TestHostileArchivesAreRefused(t *testing.T) {
	for _, a := range hostile.Archives(testLimits) {
		t.Run(a.Name, func(t *testing.T) {
			content := a.Content()
			if !bytes.Equal(content, a.Content()) {
				t.Error("is another one each time")
			}
			outer := t.TempDir()
			err := extractInto(t, filepath.Join(outer, "root"), content, testLimits)
			var refused *archive.Error
			if !errors.As(err, &refused) {
				t.Fatalf("got error %v, want one with reason %s", err, a.Reason)
			}
			if refused.Reason != a.Reason {
				t.Errorf("got reason %s (%v), want %s", refused.Reason, err, a.Reason)
			}
			if !strings.Contains(err.Error(), a.Message) || len(err.Error()) > 400 {
				t.Errorf("message %q should mention %q and be short", err, a.Message)
			}
			if strings.ContainsAny(err.Error(), "\n\x00\u202e\u200b") {
				t.Errorf("message %q holds control characters", err)
			}
			if beside, err := os.ReadDir(outer); err != nil || len(beside) != 1 {
				t.Errorf("something was written outside: %v, %v", beside, err)
			}
			if _, err := archive.Read(bytes.NewReader(content), testLimits, keepAll); !errors.As(err, &refused) || refused.Reason != a.Reason {
				t.Errorf("Read: got %v, want reason %s", err, a.Reason)
			}
		})
	}
}

func TestUnreadableIsNotBlamedOnTheArchive(t *testing.T) {
	cause := errors.New("disk is on fire")
	good := hostile.Pack(collectionEntries...)
	for _, at := range []int{0, 5, len(good) / 2} {
		r := io.MultiReader(bytes.NewReader(good[:at]), failing{cause})
		err := archive.Walk(r, archive.Limits{}, func(_ string, _ fs.FileMode, _ int64, content io.Reader) error {
			_, err := io.Copy(io.Discard, content)
			return err
		})
		var refused *archive.Error
		if !errors.As(err, &refused) || refused.Reason != archive.Unreadable || !errors.Is(err, cause) {
			t.Errorf("failure at byte %d: got %v, want reason %s", at, err, archive.Unreadable)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestWalk(t *testing.T) {
	entries := append([]hostile.Entry{{Name: "pax_global_header", Type: tar.TypeXGlobalHeader, PAX: map[string]string{"comment": "x"}}, {Name: "./", Type: tar.TypeDir}}, collectionEntries...)
	var got []string
	err := archive.Walk(bytes.NewReader(hostile.Pack(entries...)), archive.Limits{}, func(name string, mode fs.FileMode, size int64, content io.Reader) error {
		body, err := io.ReadAll(content)
		got = append(got, fmt.Sprintf("%v %s %d %q", mode, name, size, body))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`-rw-r--r-- MANIFEST.json 2 "{}"`,
		`-rw-r--r-- FILES.json 2 "{}"`,
		`-rw-r--r-- operator-config.yml 11 "name: demo\n"`,
		`drwxr-xr-x playbooks 0 ""`,
		`-rw-r--r-- playbooks/create.yml 13 "- hosts: all\n"`,
		`-rwxr-xr-x roles/demo/files/run.sh 10 "#!/bin/sh\n"`,
		`Lrwxrwxrwx playbooks/roles 8 "../roles"`,
		`Lrwxrwxrwx provision.yml 20 "playbooks/create.yml"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWalkReturnsTheVisitorsError(t *testing.T) {
	stop := errors.New("stop")
	err := archive.Walk(bytes.NewReader(hostile.Pack(collectionEntries...)), archive.Limits{}, func(string, fs.FileMode, int64, io.Reader) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

func TestExtract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := extractInto(t, dir, hostile.Pack(collectionEntries...), archive.Limits{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-rw-rw-r-- FILES.json",
		"-rw-rw-r-- MANIFEST.json",
		"-rw-rw-r-- operator-config.yml",
		"drwxrwxr-x playbooks",
		"-rw-rw-r-- playbooks/create.yml",
		"Lrwxrwxrwx playbooks/roles",
		"Lrwxrwxrwx provision.yml",
		"drwxrwxr-x roles",
		"drwxrwxr-x roles/demo",
		"drwxrwxr-x roles/demo/files",
		"-rwxrwxr-x roles/demo/files/run.sh",
	}
	var got []string
	for _, name := range listing(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%v %s", info.Mode(), name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"provision.yml": "- hosts: all\n", "playbooks/roles/demo/files/run.sh": "#!/bin/sh\n"} {
		if content, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(content) != want {
			t.Errorf("%s: got %q, %v, want %q", name, content, err, want)
		}
	}
}

func TestExtractRefusesToOverwrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "MANIFEST.json")); err != nil {
		t.Fatal(err)
	}
	if err := extractInto(t, dir, hostile.Pack(collectionEntries...), archive.Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want %v", err, fs.ErrExist)
	}
}

func TestReadIsAFileSystem(t *testing.T) {
	files, err := archive.Read(bytes.NewReader(hostile.Pack(collectionEntries...)), archive.Limits{}, keepAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(files, "MANIFEST.json", "playbooks/create.yml", "playbooks/roles", "provision.yml", "roles/demo/files/run.sh"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"provision.yml": "- hosts: all\n", "playbooks/roles/demo/files/run.sh": "#!/bin/sh\n"} {
		if content, err := fs.ReadFile(files, name); err != nil || string(content) != want {
			t.Errorf("%s: got %q, %v, want %q", name, content, err, want)
		}
		if info, err := fs.Stat(files, name); err != nil || info.Size() != int64(len(want)) || !info.Mode().IsRegular() || info.Name() != filepath.Base(name) {
			t.Errorf("%s: got %v, %v", name, info, err)
		}
	}
	if entries, err := fs.ReadDir(files, "playbooks/roles/demo"); err != nil || len(entries) != 1 {
		t.Errorf("directory below a link: got %v, %v", entries, err)
	}
	for _, name := range []string{"missing", "playbooks/missing", "MANIFEST.json/x", "playbooks/roles/missing"} {
		if _, err := fs.Stat(files, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %v, want %v", name, err, fs.ErrNotExist)
		}
	}
}

func TestReadFollowsLinksThroughLinks(t *testing.T) {
	files, err := archive.Read(bytes.NewReader(hostile.Pack(
		hostile.Entry{Name: "a/x", Type: tar.TypeSymlink, Link: "../b"}, hostile.Entry{Name: "a/f", Body: "f"},
		hostile.Entry{Name: "b/y", Type: tar.TypeSymlink, Link: "../a"})), archive.Limits{}, keepAll)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := fs.ReadFile(files, "a/x/y/x/y/f"); err != nil || string(content) != "f" {
		t.Errorf("got %q, %v", content, err)
	}
	if _, err := files.Stat(strings.Repeat("a/x/y/", 1) + strings.Repeat("x/y/", 40) + "f"); err == nil {
		t.Error("an endless path was followed")
	}
	if err := fstest.TestFS(files, "a/f"); err != nil {
		t.Error(err)
	}
}

func TestReadKeepsWhatIsAskedFor(t *testing.T) {
	content := hostile.Pack(hostile.Entry{Name: "keep", Body: "abc"}, hostile.Entry{Name: "drop", Body: "defg"})
	files, err := archive.Read(bytes.NewReader(content), archive.Limits{KeptBytes: 3}, func(name string, _ int64) bool { return name == "keep" })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fs.ReadFile(files, "keep"); err != nil || string(got) != "abc" {
		t.Errorf("keep: got %q, %v", got, err)
	}
	if info, err := fs.Stat(files, "drop"); err != nil || info.Size() != 4 {
		t.Errorf("drop: got %v, %v", info, err)
	}
	if _, err := files.Open("drop"); !errors.Is(err, archive.ErrNotKept) || !strings.Contains(err.Error(), "drop") {
		t.Errorf("open drop: got %v, want %v", err, archive.ErrNotKept)
	}
	if _, err := fs.ReadFile(files, "drop"); !errors.Is(err, archive.ErrNotKept) {
		t.Errorf("read drop: got %v, want %v", err, archive.ErrNotKept)
	}
	var refused *archive.Error
	if _, err := archive.Read(bytes.NewReader(content), archive.Limits{KeptBytes: 6}, keepAll); !errors.As(err, &refused) || refused.Reason != archive.TooLarge || refused.Entry != "drop" {
		t.Errorf("above KeptBytes: got %v, want reason %s for drop", err, archive.TooLarge)
	}
}

func TestReadHashesEveryFile(t *testing.T) {
	content := hostile.Pack(hostile.Entry{Name: "keep", Body: "abc"}, hostile.Entry{Name: "d/drop", Body: "defg"}, hostile.Entry{Name: "empty"},
		hostile.Entry{Name: "link", Type: tar.TypeSymlink, Link: "d/drop"}, hostile.Entry{Name: "folder", Type: tar.TypeSymlink, Link: "d"})
	files, err := archive.Read(bytes.NewReader(content), archive.Limits{}, func(name string, _ int64) bool { return name == "keep" })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"keep": "abc", "d/drop": "defg", "link": "defg", "folder/drop": "defg", "empty": ""} {
		if sum, ok := files.SHA256(name); !ok || sum != sha256.Sum256([]byte(want)) {
			t.Errorf("%s: got %x, %t", name, sum, ok)
		}
	}
	for _, name := range []string{".", "d", "folder", "missing", "../keep"} {
		if sum, ok := files.SHA256(name); ok {
			t.Errorf("%s: got %x", name, sum)
		}
	}
}

func TestWriteIsDeterministicAndReadable(t *testing.T) {
	source := fstest.MapFS{
		"MANIFEST.json":                          {Data: []byte("{}"), Mode: 0o600},
		"playbooks/create.yml":                   {Data: []byte("- hosts: all\n"), Mode: 0o644},
		"run.sh":                                 {Data: []byte("#!/bin/sh\n"), Mode: 0o700},
		strings.Repeat("long/", 30) + "name.yml": {Data: []byte("x")},
	}
	write := func(names []string) []byte {
		var buffer bytes.Buffer
		if err := archive.Write(&buffer, source, names); err != nil {
			t.Fatal(err)
		}
		return buffer.Bytes()
	}
	first := write([]string{"run.sh", "playbooks", "playbooks/create.yml"})
	if !bytes.Equal(first, write([]string{"playbooks/create.yml", "playbooks", "run.sh", "run.sh"})) {
		t.Error("the order of names changes the archive")
	}
	files, err := archive.Read(bytes.NewReader(write(nil)), archive.Limits{}, keepAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(files, "MANIFEST.json", "playbooks/create.yml", "run.sh"); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]fs.FileMode{"MANIFEST.json": 0o644, "run.sh": 0o755} {
		if info, err := fs.Stat(files, name); err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want mode %v", name, info, err, want)
		}
	}
	if err := archive.Write(io.Discard, source, []string{"missing"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}

func keepAll(string, int64) bool { return true }

func extractInto(t testing.TB, dir string, content []byte, limits archive.Limits) error {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return archive.Extract(bytes.NewReader(content), root, limits)
}

func listing(t testing.TB, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
		if name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestReadFile(t *testing.T) {
	content := hostile.Pack(collectionEntries...)
	if got, err := archive.ReadFile(bytes.NewReader(content), archive.Limits{}, "operator-config.yml"); err != nil || string(got) != "name: demo\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"absent", "playbooks", "provision.yml"} { // A link is not the file itself.
		if got, err := archive.ReadFile(bytes.NewReader(content), archive.Limits{}, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	var refused *archive.Error
	if _, err := archive.ReadFile(bytes.NewReader(content[:len(content)-1]), archive.Limits{}, "operator-config.yml"); !errors.As(err, &refused) {
		t.Errorf("cut off behind the file: got %v", err)
	}
}
