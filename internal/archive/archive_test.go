package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
)

// entryOf is a tar entry of a test archive; without a type it is a file with the body as content.
type entryOf struct {
	name string
	kind byte
	body string
	link string
	mode int64
}

func tarOf(t testing.TB, entries ...entryOf) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	for _, e := range entries {
		if e.kind == 0 {
			e.kind = tar.TypeReg
		}
		if e.mode == 0 {
			e.mode = 0o644
		}
		header := &tar.Header{Typeflag: e.kind, Name: e.name, Linkname: e.link, Mode: e.mode, Size: int64(len(e.body))}
		if e.kind == tar.TypeXGlobalHeader {
			header = &tar.Header{Typeflag: e.kind, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "x"}}
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatalf("write header of %q: %v", e.name, err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func zip(t testing.TB, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func archiveOf(t testing.TB, entries ...entryOf) []byte {
	t.Helper()
	return zip(t, tarOf(t, entries...))
}

// collectionEntries is laid out like the output of `ansible-galaxy collection build`.
var collectionEntries = []entryOf{
	{name: "MANIFEST.json", body: "{}"},
	{name: "FILES.json", body: "{}"},
	{name: "./operator-config.yml", body: "name: demo\n"},
	{name: "playbooks/", kind: tar.TypeDir, mode: 0o755},
	{name: "playbooks/create.yml", body: "- hosts: all\n"},
	{name: "playbooks/roles", kind: tar.TypeSymlink, link: "../roles"},
	{name: "roles/demo/files/run.sh", body: "#!/bin/sh\n", mode: 0o4755},
	{name: "provision.yml", kind: tar.TypeSymlink, link: "playbooks/create.yml"},
}

var testLimits = Limits{TotalBytes: 64 << 10, FileBytes: 8 << 10, KeptBytes: 4 << 10, Entries: 12, Depth: 5, NameBytes: 60}

type hostile struct {
	name    string
	content []byte
	want    Reason
	message string // part of the message that must help
}

func hostileArchives(t testing.TB) []hostile {
	good := archiveOf(t, collectionEntries...)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 0xff // in the checksum
	many := make([]entryOf, 13)
	for i := range many {
		many[i] = entryOf{name: fmt.Sprintf("f%d", i)}
	}
	badHeader := tarOf(t, entryOf{name: "a"}, entryOf{name: "b"})
	badHeader[512] ^= 0x01
	withTail := append(tarOf(t, entryOf{name: "a"}), tarOf(t, entryOf{name: "hidden"})...)
	one := func(e entryOf) []byte { return archiveOf(t, e) }
	link := func(name, target string) []byte {
		return archiveOf(t, entryOf{name: "a/b/file"}, entryOf{name: "top"}, entryOf{name: name, kind: tar.TypeSymlink, link: target})
	}
	return []hostile{
		{"empty file", nil, Truncated, "empty"},
		{"one byte", []byte{0x1f}, NotGzip, ".tar.gz"},
		{"a web page", []byte("<html>"), NotGzip, ".tar.gz"},
		{"plain tar", tarOf(t, entryOf{name: "a"}), NotGzip, ".tar.gz"},
		{"gzip header only", good[:10], Truncated, "too early"},
		{"cut", good[:len(good)/2], Truncated, "too early"},
		{"cut in the checksum", good[:len(good)-3], Truncated, "too early"},
		{"wrong checksum", flipped, Corrupt, "checksum"},
		{"gzip of text", zip(t, []byte("hello")), NotTar, "tar"},
		{"gzip of much text", zip(t, bytes.Repeat([]byte("hello"), 1000)), NotTar, "tar"},
		{"no entries", archiveOf(t), Empty, "no entries"},
		{"only the top directory", one(entryOf{name: "./", kind: tar.TypeDir}), Empty, "no entries"},
		{"damaged second header", zip(t, badHeader), Corrupt, "header"},
		{"tar cut", zip(t, tarOf(t, entryOf{name: "a", body: "content"})[:514]), Truncated, "too early"},
		{"data after the tar", zip(t, withTail), TrailingData, "tar"},
		{"data after the gzip", append(bytes.Clone(good), "tail"...), TrailingData, "gzip"},
		{"second gzip member", append(bytes.Clone(good), good...), TrailingData, "gzip"},

		{"absolute", one(entryOf{name: "/etc/passwd"}), PathEscapes, "absolute"},
		{"parent", one(entryOf{name: "../x"}), PathEscapes, `".."`},
		{"parent inside", one(entryOf{name: "a/../x"}), PathEscapes, `".."`},
		{"parent directory", one(entryOf{name: "a/..", kind: tar.TypeDir}), PathEscapes, `".."`},
		{"backslash", one(entryOf{name: `..\x`}), InvalidName, "backslash"},
		{"line break", one(entryOf{name: "a\nb"}), InvalidName, "control"},
		{"not UTF-8", one(entryOf{name: "a\xffb"}), InvalidName, "UTF-8"},
		{"no name", one(entryOf{name: ""}), InvalidName, "empty"},
		{"file named like the top directory", one(entryOf{name: "."}), InvalidName, "directory"},

		{"hard link", one(entryOf{name: "a", kind: tar.TypeLink, link: "b"}), UnsupportedEntry, "hard link"},
		{"character device", one(entryOf{name: "a", kind: tar.TypeChar}), UnsupportedEntry, "device"},
		{"block device", one(entryOf{name: "a", kind: tar.TypeBlock}), UnsupportedEntry, "device"},
		{"pipe", one(entryOf{name: "a", kind: tar.TypeFifo}), UnsupportedEntry, "pipe"},
		{"unknown type", one(entryOf{name: "a", kind: 'Z'}), UnsupportedEntry, "unknown"},

		{"link to an absolute path", link("l", "/etc/passwd"), PathEscapes, "absolute"},
		{"link to the parent", link("l", "../x"), PathEscapes, "outside"},
		{"link to the parent from below", link("a/l", "../../x"), PathEscapes, "outside"},
		{"link out and in again", link("a/l", "../../content/top"), PathEscapes, "outside"},
		{"link through a name and up", link("l", "a/b/../b/file"), UnsafeLink, `".."`},
		{"link to nothing", link("l", "missing"), UnsafeLink, "does not hold"},
		{"link to other case", link("l", "TOP"), UnsafeLink, "does not hold"},
		{"link to itself", link("l", "l"), UnsafeLink, "symbolic link itself"},
		{"link to its directory", link("a/b/l", ".."), UnsafeLink, "lies in"},
		{"link to the top", link("l", "."), UnsafeLink, "lies in"},
		{"link to a file as a directory", link("l", "top/"), UnsafeLink, "not a directory"},
		{"link without target", link("l", ""), InvalidName, "empty"},
		{"link with backslash", link("l", `a\b`), InvalidName, "backslash"},
		{"long link", link("l", "./"+strings.Repeat("./", 40)+"top"), NameTooLong, "60"},
		{"link to a link", archiveOf(t, entryOf{name: "f"}, entryOf{name: "l", kind: tar.TypeSymlink, link: "m"},
			entryOf{name: "m", kind: tar.TypeSymlink, link: "f"}), UnsafeLink, "symbolic link itself"},
		{"file below a link", archiveOf(t, entryOf{name: "d/f"}, entryOf{name: "l", kind: tar.TypeSymlink, link: "d"},
			entryOf{name: "l/g"}), UnsafeLink, "below the symbolic link"},
		{"link over a directory", archiveOf(t, entryOf{name: "d/f"}, entryOf{name: "d", kind: tar.TypeSymlink, link: "d/f"}), DuplicateEntry, "twice"},

		{"twice", archiveOf(t, entryOf{name: "a"}, entryOf{name: "./a"}), DuplicateEntry, "twice"},
		{"file and directory", archiveOf(t, entryOf{name: "a"}, entryOf{name: "a/", kind: tar.TypeDir}), DuplicateEntry, "twice"},
		{"directory twice", archiveOf(t, entryOf{name: "a/", kind: tar.TypeDir}, entryOf{name: "a/", kind: tar.TypeDir}), DuplicateEntry, "twice"},
		{"other case", archiveOf(t, entryOf{name: "a/readme"}, entryOf{name: "a/README"}), DuplicateEntry, "case"},
		{"directory in other case", archiveOf(t, entryOf{name: "a/x"}, entryOf{name: "A/y"}), DuplicateEntry, "case"},
		{"below a file", archiveOf(t, entryOf{name: "a"}, entryOf{name: "a/b"}), DuplicateEntry, "is a file"},

		{"large file", one(entryOf{name: "a", body: strings.Repeat("x", 8<<10+1)}), TooLarge, "8192"},
		{"large archive", zip(t, make([]byte, 64<<10+1)), TooLarge, "65536"},
		{"too many", archiveOf(t, many...), TooManyEntries, "12"},
		{"too many implied", archiveOf(t, entryOf{name: "a/b/c/d/e"}, entryOf{name: "b/b/c/d/e"}, entryOf{name: "c/b/c/d/e"}), TooManyEntries, "12"},
		{"too deep", one(entryOf{name: "a/b/c/d/e/f"}), TooDeep, "5"},
		{"long name", one(entryOf{name: strings.Repeat("x", 61)}), NameTooLong, "60"},
		{"very long name", one(entryOf{name: strings.Repeat("x", 5000)}), NameTooLong, "..."},
	}
}

func TestHostileArchivesAreRefused(t *testing.T) {
	for _, tt := range hostileArchives(t) {
		t.Run(tt.name, func(t *testing.T) {
			outer := t.TempDir()
			err := extractInto(t, filepath.Join(outer, "root"), tt.content, testLimits)
			var refused *Error
			if !errors.As(err, &refused) {
				t.Fatalf("got error %v, want one with reason %s", err, tt.want)
			}
			if refused.Reason != tt.want {
				t.Errorf("got reason %s (%v), want %s", refused.Reason, err, tt.want)
			}
			if !strings.Contains(err.Error(), tt.message) || len(err.Error()) > 400 {
				t.Errorf("message %q should mention %q and be short", err, tt.message)
			}
			if strings.ContainsAny(err.Error(), "\n\x00") {
				t.Errorf("message %q holds control characters", err)
			}
			if names := listing(t, outer); len(names) > 0 && !strings.HasPrefix(names[0], "root") {
				t.Errorf("something was written outside: %v", names)
			}
			if _, err := Read(bytes.NewReader(tt.content), testLimits, keepAll); !errors.As(err, &refused) || refused.Reason != tt.want {
				t.Errorf("Read: got %v, want reason %s", err, tt.want)
			}
		})
	}
}

func TestUnreadableIsNotBlamedOnTheArchive(t *testing.T) {
	cause := errors.New("disk is on fire")
	good := archiveOf(t, collectionEntries...)
	for _, at := range []int{0, 5, len(good) / 2} {
		r := io.MultiReader(bytes.NewReader(good[:at]), failing{cause})
		err := Walk(r, Limits{}, func(_ string, _ fs.FileMode, _ int64, content io.Reader) error {
			_, err := io.Copy(io.Discard, content)
			return err
		})
		var refused *Error
		if !errors.As(err, &refused) || refused.Reason != Unreadable || !errors.Is(err, cause) {
			t.Errorf("failure at byte %d: got %v, want reason %s", at, err, Unreadable)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestWalk(t *testing.T) {
	entries := append([]entryOf{{kind: tar.TypeXGlobalHeader}, {name: "./", kind: tar.TypeDir}}, collectionEntries...)
	var got []string
	err := Walk(bytes.NewReader(archiveOf(t, entries...)), Limits{}, func(name string, mode fs.FileMode, size int64, content io.Reader) error {
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
	err := Walk(bytes.NewReader(archiveOf(t, collectionEntries...)), Limits{}, func(string, fs.FileMode, int64, io.Reader) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
}

func TestExtract(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := extractInto(t, dir, archiveOf(t, collectionEntries...), Limits{}); err != nil {
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
	if err := extractInto(t, dir, archiveOf(t, collectionEntries...), Limits{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want %v", err, fs.ErrExist)
	}
}

func TestReadIsAFileSystem(t *testing.T) {
	files, err := Read(bytes.NewReader(archiveOf(t, collectionEntries...)), Limits{}, keepAll)
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
	files, err := Read(bytes.NewReader(archiveOf(t,
		entryOf{name: "a/x", kind: tar.TypeSymlink, link: "../b"}, entryOf{name: "a/f", body: "f"},
		entryOf{name: "b/y", kind: tar.TypeSymlink, link: "../a"})), Limits{}, keepAll)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := files.ReadFile("a/x/y/x/y/f"); err != nil || string(content) != "f" {
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
	content := archiveOf(t, entryOf{name: "keep", body: "abc"}, entryOf{name: "drop", body: "defg"})
	files, err := Read(bytes.NewReader(content), Limits{KeptBytes: 3}, func(name string, _ int64) bool { return name == "keep" })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fs.ReadFile(files, "keep"); err != nil || string(got) != "abc" {
		t.Errorf("keep: got %q, %v", got, err)
	}
	if info, err := fs.Stat(files, "drop"); err != nil || info.Size() != 4 {
		t.Errorf("drop: got %v, %v", info, err)
	}
	if _, err := files.Open("drop"); !errors.Is(err, ErrNotKept) || !strings.Contains(err.Error(), "drop") {
		t.Errorf("open drop: got %v, want %v", err, ErrNotKept)
	}
	if _, err := fs.ReadFile(files, "drop"); !errors.Is(err, ErrNotKept) {
		t.Errorf("read drop: got %v, want %v", err, ErrNotKept)
	}
	var refused *Error
	if _, err := Read(bytes.NewReader(content), Limits{KeptBytes: 6}, keepAll); !errors.As(err, &refused) || refused.Reason != TooLarge || refused.Entry != "drop" {
		t.Errorf("above KeptBytes: got %v, want reason %s for drop", err, TooLarge)
	}
}

func TestReadHashesEveryFile(t *testing.T) {
	content := archiveOf(t, entryOf{name: "keep", body: "abc"}, entryOf{name: "d/drop", body: "defg"}, entryOf{name: "empty"},
		entryOf{name: "link", kind: tar.TypeSymlink, link: "d/drop"}, entryOf{name: "folder", kind: tar.TypeSymlink, link: "d"})
	files, err := Read(bytes.NewReader(content), Limits{}, func(name string, _ int64) bool { return name == "keep" })
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
		if err := Write(&buffer, source, names); err != nil {
			t.Fatal(err)
		}
		return buffer.Bytes()
	}
	first := write([]string{"run.sh", "playbooks", "playbooks/create.yml"})
	if !bytes.Equal(first, write([]string{"playbooks/create.yml", "playbooks", "run.sh", "run.sh"})) {
		t.Error("the order of names changes the archive")
	}
	files, err := Read(bytes.NewReader(write(nil)), Limits{}, keepAll)
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
	if err := Write(io.Discard, source, []string{"missing"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: got %v", err)
	}
}

func keepAll(string, int64) bool { return true }

func extractInto(t testing.TB, dir string, content []byte, limits Limits) error {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return Extract(bytes.NewReader(content), root, limits)
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
	content := archiveOf(t, collectionEntries...)
	if got, err := ReadFile(bytes.NewReader(content), Limits{}, "operator-config.yml"); err != nil || string(got) != "name: demo\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, name := range []string{"absent", "playbooks", "provision.yml"} { // A link is not the file itself.
		if got, err := ReadFile(bytes.NewReader(content), Limits{}, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	var refused *Error
	if _, err := ReadFile(bytes.NewReader(content[:len(content)-1]), Limits{}, "operator-config.yml"); !errors.As(err, &refused) {
		t.Errorf("cut off behind the file: got %v", err)
	}
}
