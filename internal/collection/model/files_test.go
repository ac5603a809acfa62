package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/ansible"
)

// fileList is FILES.json.
type fileList struct {
	Files  []FileEntry `json:"files"`
	Format int         `json:"format"`
}

func checkedEntry(name string, sum []byte) FileEntry {
	return FileEntry{Name: name, Type: TypeFile, ChecksumType: new("sha256"), SHA256: new(hex.EncodeToString(sum)), Format: 1}
}

// sealed adds to an archive in memory, one with MANIFEST.json and without FILES.json, what ansible-galaxy would: FILES.json,
// and at the end of MANIFEST.json its checksum. Anything else it leaves alone.
func sealed(fsys fs.FS) fs.FS {
	files, ok := fsys.(fstest.MapFS)
	if !ok || files[ManifestFile] == nil || files[FilesFile] != nil {
		return fsys
	}
	list := fileList{Format: 1}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			list.Files = append(list.Files, FileEntry{Name: name, Type: TypeFolder, Format: 1})
		case name != ManifestFile:
			sum := sha256.Sum256(files[name].Data)
			list.Files = append(list.Files, checkedEntry(name, sum[:]))
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	content, err := json.MarshalIndent(list, "", " ")
	if err != nil {
		panic(err)
	}
	files = maps.Clone(files)
	withList(files, string(content))
	return files
}

// withList replaces FILES.json, with its checksum in MANIFEST.json: the last one there counts.
func withList(files fstest.MapFS, content string) {
	files[FilesFile] = &fstest.MapFile{Data: []byte(content)}
	sum := sha256.Sum256([]byte(content))
	entry, err := json.Marshal(checkedEntry(FilesFile, sum[:]))
	if err != nil {
		panic(err)
	}
	withManifestKey(files, `"file_manifest_file": `+string(entry))
}

// withManifestKey adds a key to MANIFEST.json if that is an object.
func withManifestKey(files fstest.MapFS, key string) {
	manifest, ok := strings.CutSuffix(strings.TrimRight(string(files[ManifestFile].Data), " \n"), "}")
	if !ok {
		return
	}
	if !strings.HasSuffix(manifest, "{") {
		manifest += ", "
	}
	files[ManifestFile] = &fstest.MapFile{Data: []byte(manifest + key + "}")}
}

func soundArchive() fstest.MapFS { return sealed(archiveOf(sound)).(fstest.MapFS) }

// edited replaces a text in FILES.json once; the checksum in MANIFEST.json follows.
func edited(from, to string) func(fstest.MapFS) {
	return func(f fstest.MapFS) {
		if !strings.Contains(string(f[FilesFile].Data), from) {
			panic("FILES.json does not hold " + from)
		}
		withList(f, strings.Replace(string(f[FilesFile].Data), from, to, 1))
	}
}

func manifestEntry(entry string) func(fstest.MapFS) {
	return func(f fstest.MapFS) { withManifestKey(f, `"file_manifest_file": `+entry) }
}

// checksumCases change an archive that was sealed before.
var checksumCases = []ruleCase{
	checksumCase(ruleManifestChecksum, "sound", func(fstest.MapFS) {}),
	checksumCase(ruleManifestChecksum, "changed list", func(f fstest.MapFS) { f[FilesFile].Data = append(f[FilesFile].Data, '\n') }, place{FilesFile, 0, 0}),
	checksumCase(ruleFilesList, "further keys", edited(`"format": 1`, `"format": 1, "more": [{}]`)),
	checksumCase(ruleFilesList, "unknown type", edited(`"ftype": "file"`, `"ftype": "link"`), place{FilesFile, 10, 3}),
	checksumCase(ruleFilesMissing, "sound", func(fstest.MapFS) {}),
	checksumCase(ruleFilesMissing, "removed file", func(f fstest.MapFS) { delete(f, "run.yml") }, place{FilesFile, 31, 3}),
	checksumCase(ruleFilesChecksum, "sound", func(fstest.MapFS) {}),
	checksumCase(ruleFilesChecksum, "changed file", func(f fstest.MapFS) { f["run.yml"].Data = []byte("- hosts: localhost\n") }, place{FilesFile, 31, 3}),
	checksumCase(ruleFilesExtra, "sound", func(fstest.MapFS) {}),
	checksumCase(ruleFilesExtra, "added file", func(f fstest.MapFS) { f["playbooks/more.yml"] = f["run.yml"] }, place{FilesFile, 0, 0}),
}

func checksumCase(rule findings.Rule, name string, change func(fstest.MapFS), places ...place) ruleCase {
	files := soundArchive()
	change(files)
	c := ruleCase{rule: rule, name: name, files: map[string]string{}, want: places}
	for name := range archiveOf(sound) {
		c.files[name] = "" // what was removed stays so
	}
	for name, file := range files {
		c.files[name] = string(file.Data)
	}
	return c
}

func TestFiles(t *testing.T) {
	const line = "  {\n   \"name\": \"extra\",\n   \"ftype\": \"file\",\n   \"chksum_type\": \"sha256\",\n   \"chksum_sha256\": \"" +
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\n   \"format\": 1\n  },\n"
	folder := []string{"\"ftype\": \"dir\",\n   \"chksum_type\"", ",\n   \"chksum_sha256\"", ""}
	const first = " \"files\": [\n"
	add := func(name string) func(fstest.MapFS) {
		return edited(first, first+strings.Replace(line, "extra", name, 1))
	}
	const sum = "b5760e64"
	list := func(content string) func(fstest.MapFS) { return func(f fstest.MapFS) { withList(f, content) } }
	tests := map[string]struct {
		change func(fstest.MapFS)
		want   []expect
	}{
		"sound":     {func(fstest.MapFS) {}, nil},
		"further":   {edited(`"format": 1`, `"format": 1, "more": [{}]`), nil},
		"no list":   {func(f fstest.MapFS) { delete(f, FilesFile) }, []expect{{0, 0, "", findings.SeverityError, ruleFilesMissing.Name, "is missing"}}},
		"too large": {func(f fstest.MapFS) { f[FilesFile].Data = make([]byte, maxListBytes+1) }, []expect{{0, 0, "", findings.SeverityError, ruleFile.Name, "16 MiB"}}},
		"changed list": {func(f fstest.MapFS) { f[FilesFile].Data = append(f[FilesFile].Data, '\n') },
			[]expect{{0, 0, "", findings.SeverityError, ruleManifestChecksum.Name, "not the one in MANIFEST.json"}}},
		"no checksum in the manifest": {func(f fstest.MapFS) { f[ManifestFile] = &fstest.MapFile{Data: []byte(testManifest)} }, []expect{{1, 1, "file_manifest_file", findings.SeverityError, ruleManifestChecksum.Name, "is required"}}},
		"null in the manifest": {manifestEntry(`null`),
			[]expect{{1, 115, "file_manifest_file", findings.SeverityError, ruleManifestChecksum.Name, "path"}}},
		"other list in the manifest": {manifestEntry(`{"name": "OTHER.json", "ftype": "dir"}`),
			[]expect{{1, 115, "file_manifest_file", findings.SeverityError, ruleManifestChecksum.Name, "OTHER.json"}}},
		"other checksum type in the manifest": {manifestEntry(`{"name": "FILES.json", "ftype": "file", "chksum_type": "md5", "chksum_md5": "x"}`),
			[]expect{{1, 115, "file_manifest_file", findings.SeverityError, ruleManifestChecksum.Name, "sha256"}}},

		"changed file": {func(f fstest.MapFS) { f["run.yml"].Data = []byte("- hosts: localhost\n") },
			[]expect{{31, 3, "files[4]", findings.SeverityError, ruleFilesChecksum.Name, "run.yml"}}},
		"missing file":         {add("extra"), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesMissing.Name, `"extra" is listed and not there`}}},
		"missing below a file": {add("run.yml/x"), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesMissing.Name, "run.yml/x"}}},
		"folder as file": {edited(strings.Join(folder, ": null"), `"ftype": "file", "chksum_type": "sha256", "chksum_sha256": "`+strings.Repeat("0", 64)+`"`),
			[]expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesMissing.Name, "ftype file"}}},
		"file as folder": {edited(`"name": "run.yml",`+"\n"+`   "ftype": "file"`, `"name": "run.yml", "ftype": "dir"`),
			[]expect{{31, 3, "files[4]", findings.SeverityError, ruleFilesMissing.Name, "ftype dir"}}},
		"unlisted file": {func(f fstest.MapFS) { f["playbooks/évil.yml"] = f["run.yml"] },
			[]expect{{0, 0, "", findings.SeverityError, ruleFilesExtra.Name, "évil.yml"}}},
		"unlisted folder": {func(f fstest.MapFS) { f["more/x"], f["more/y"] = f["run.yml"], f["run.yml"] },
			[]expect{{0, 0, "", findings.SeverityError, ruleFilesExtra.Name, `"more"`}}},

		"not JSON":       {list("{\n \"files\": ["), []expect{{2, 11, "", findings.SeverityError, ruleJSON.Name, "unexpected end"}}},
		"deep":           {list(strings.Repeat("[", 1<<20)), []expect{{1, 10001, "", findings.SeverityError, ruleJSON.Name, "depth"}}},
		"two documents":  {list("{} {}"), []expect{{1, 4, "", findings.SeverityError, ruleJSON.Name, "after top-level value"}}},
		"no object":      {list("[]"), []expect{{0, 0, "", findings.SeverityError, ruleFilesList.Name, "object"}}},
		"no files":       {list("{}"), []expect{{0, 0, "", findings.SeverityError, ruleFilesList.Name, "not 0"}}},
		"other case":     {list(`{"Files": []}`), []expect{{0, 0, "", findings.SeverityError, ruleFilesList.Name, "not 0"}}},
		"two lists":      {list(`{"files": [], "files": []}`), []expect{{0, 0, "", findings.SeverityError, ruleFilesList.Name, "not 2"}}},
		"list as object": {list(`{"files": {}}`), []expect{{0, 0, "", findings.SeverityError, ruleFilesList.Name, "must be a list"}}},
		"text as entry":  {edited(first, first+`  "x",`+"\n"), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesList.Name, "must be an object"}}},
		"number as name": {edited(`"run.yml"`, `1`), []expect{{31, 3, "files[4]", findings.SeverityError, ruleFilesList.Name, "must be an object"}}},
		"key twice": {edited(`"name": "run.yml",`, `"name": "x", "name": "run.yml",`),
			[]expect{{31, 3, "files[4]", findings.SeverityError, ruleFilesList.Name, `duplicate field "name"`}}},
		"key in other case": {edited(`"name": "run.yml",`, `"Name": "run.yml",`), []expect{{31, 3, "files[4]", findings.SeverityError, ruleFilesList.Name, `the name ""`}}},
		"listed twice":      {add("run.yml"), []expect{{38, 3, "files[5]", findings.SeverityError, ruleFilesList.Name, "listed twice, first in line 3"}}},
		"path up":           {add("../run.yml"), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesList.Name, `"../run.yml" is not a path inside`}}},
		"path within":       {add("a/../run.yml"), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesList.Name, "is not a path inside"}}},
		"absolute path":     {add("/run.yml"), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesList.Name, "is not a path inside"}}},
		"backslash":         {add(`a\\run.yml`), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesList.Name, "is not a path inside"}}},
		"unknown type":      {edited(`"ftype": "dir"`, `"ftype": "link"`), []expect{{3, 3, "files[0]", findings.SeverityError, ruleFilesList.Name, `"link", not file or dir`}}},
		"no checksum":       {edited(sum, "X"), []expect{{24, 3, "files[3]", findings.SeverityError, ruleFilesList.Name, "no checksum"}}},
		"checksum in capitals": {edited(sum, strings.ToUpper(sum)),
			[]expect{{24, 3, "files[3]", findings.SeverityError, ruleFilesList.Name, "lower-case"}}},
		"another checksum type": {edited(`"chksum_type": "sha256"`, `"chksum_type": "md5"`), []expect{{10, 3, "files[1]", findings.SeverityError, ruleFilesList.Name, "sha256"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			fsys := soundArchive()
			test.change(fsys)
			_, problems, err := Read(fsys)
			if err != nil {
				t.Fatal(err)
			}
			checkProblems(t, problems, test.want)
		})
	}
}

// A list that is far too long is refused without being held in memory, and says so a bounded number of times.
func TestFilesBounds(t *testing.T) {
	const million = 1_000_000
	for name, entry := range map[string]string{
		"entries":    `{"name":"x"},`,
		"folders":    `{"ftype":"dir"},`,
		"numbers":    "1,",
		"other keys": "",
	} {
		t.Run(name, func(t *testing.T) {
			content := `{"files": [` + strings.Repeat(entry, million) + `{}]}`
			if entry == "" {
				content = "{" + strings.Repeat(`"a":1,`, million) + `"a":1}`
			}
			fsys := soundArchive()
			withList(fsys, content)
			_, problems, err := Read(fsys)
			if err != nil {
				t.Fatal(err)
			}
			if len(problems) == 0 || len(problems) > findings.MaxProblems || problems[0].Rule != ruleFilesList.Name {
				t.Errorf("got %d problems, the first %v", len(problems), problems[:min(1, len(problems))])
			}
		})
	}
}

// readThroughArchive packs files as they are.
func readThroughArchive(t *testing.T, fsys fs.FS) *archive.Files {
	t.Helper()
	var content bytes.Buffer
	if err := archive.Write(&content, fsys, nil); err != nil {
		t.Fatal(err)
	}
	files, err := archive.Read(&content, archive.Limits{}, Keep)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Of an archive the checksums are known without its content, and they count just as those of files that can be read.
func TestFilesOfAnArchive(t *testing.T) {
	if problems := problemsOf(t, readThroughArchive(t, soundArchive())); len(problems) > 0 {
		t.Errorf("got %v", problems)
	}
	changed := soundArchive()
	changed["run.yml"].Data = []byte("- hosts: localhost\n")
	checkProblems(t, problemsOf(t, readThroughArchive(t, changed)), []expect{{31, 3, "files[4]", findings.SeverityError, ruleFilesChecksum.Name, "run.yml"}})
}

// What ansible-galaxy builds loads, and so does what it installs: links inside the collection, files that may be executed,
// empty folders.
func TestFilesOfAnsibleGalaxy(t *testing.T) {
	ansible.Need(t, "ansible-galaxy")
	dir := t.TempDir()
	folder := filepath.Join(dir, "demo")
	files := archiveOf(head + "- {kind: Thing, playbook: linked.yml}\n")
	delete(files, ManifestFile)
	files[GalaxyFile] = &fstest.MapFile{Data: []byte(goodGalaxy)}
	files["README.md"] = &fstest.MapFile{Data: []byte("# Demo\n")}
	files["roles/demo/files/run.sh"] = &fstest.MapFile{Data: []byte("#!/bin/sh\n")}
	if err := os.CopyFS(folder, files); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink("playbooks/provision.yml", filepath.Join(folder, "linked.yml")),
		os.Symlink("../roles", filepath.Join(folder, "playbooks", "roles")),
		os.Chmod(filepath.Join(folder, "roles/demo/files/run.sh"), 0o755),
		os.Mkdir(filepath.Join(folder, "empty"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"collection", "build", "--output-path", dir, folder},
		{"collection", "install", "--no-deps", "-p", dir, filepath.Join(dir, "acme-demo-1.2.3.tar.gz")},
	} {
		command := exec.Command("ansible-galaxy", args...)
		command.Env = append(os.Environ(), "HOME="+dir, "ANSIBLE_LOCAL_TEMP="+dir)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("ansible-galaxy %v: %v\n%s", args, err, out)
		}
	}
	content, err := os.Open(filepath.Join(dir, "acme-demo-1.2.3.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	unpacked, err := archive.Read(content, archive.Limits{}, Keep)
	if err != nil {
		t.Fatal(err)
	}
	installed := os.DirFS(filepath.Join(dir, "ansible_collections", "acme", "demo"))
	for name, fsys := range map[string]fs.FS{"archive": unpacked, "installed": installed} {
		if problems := problemsOf(t, fsys); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	link := filepath.Join(dir, "ansible_collections", "acme", "demo", "docs")
	if err := os.Symlink("roles", link); err != nil {
		t.Fatal(err)
	}
	checkProblems(t, problemsOf(t, installed), []expect{{0, 0, "", findings.SeverityError, ruleFilesExtra.Name, `"docs"`}})
}

// FuzzFiles: whatever MANIFEST.json and FILES.json hold, Lint returns, and a list that it accepts is true.
func FuzzFiles(f *testing.F) {
	seed := soundArchive()
	f.Add(seed[ManifestFile].Data, seed[FilesFile].Data, true)
	for _, files := range []string{"{", "[]", `{"files": [{}]}`, `{"files": [{"name": "..", "ftype": "dir"}, 1], "files": null}`, `{"Files": []}`} {
		f.Add([]byte(testManifest), []byte(files), true)
	}
	f.Fuzz(func(t *testing.T, manifest, files []byte, seal bool) {
		fsys := soundArchive()
		fsys[ManifestFile], fsys[FilesFile] = &fstest.MapFile{Data: manifest}, &fstest.MapFile{Data: files}
		if seal {
			withList(fsys, string(files))
		}
		_, problems, err := Read(fsys)
		if err != nil {
			t.Fatal(err)
		}
		if len(problems.Refused()) > 0 {
			return
		}
		var list fileList
		if err := json.Unmarshal(files, &list); err != nil {
			t.Fatalf("accepted a list that is none: %v", err)
		}
		for name, file := range fsys {
			if name == ManifestFile || name == FilesFile {
				continue
			}
			sum := sha256.Sum256(file.Data)
			if !bytes.Contains(files, []byte(hex.EncodeToString(sum[:]))) {
				t.Errorf("accepted a list without the checksum of %s", name)
			}
		}
	})
}
