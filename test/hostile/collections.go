package hostile

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// sound is the folder of a collection that breaks no rule.
func sound() fstest.MapFS {
	files := map[string]string{
		"galaxy.yml": "namespace: acme\nname: demo\nversion: 1.0.0\nreadme: README.md\nauthors: [acme]\n",
		"README.md":  "# Demo\n",
		"operator-config.yml": "domain: acme\nname: demo\nversion: 1.0.0\ndisplayName: Demo\n" +
			"resources:\n- {kind: Thing, displayName: Thing, playbook: caf\u00e9.yml}\n",
		"caf\u00e9.yml":           "- {name: Demo, hosts: all, gather_facts: false, tasks: []}\n",
		"roles/demo/tasks/a.yml":  "- ansible.builtin.debug: {msg: good}\n",
		"plugins/modules/demo.py": "print('{}')\n",
	}
	folder := fstest.MapFS{}
	for name, content := range files {
		folder[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return folder
}

// Sound is the archive that [Collections] are made from. It loads.
func Sound() []byte { return built(sound()) }

func built(folder fstest.MapFS) []byte {
	var buffer bytes.Buffer
	must(galaxy.Build(folder, &buffer))
	return buffer.Bytes()
}

// Collections are the archives that are sound as such, and must not load.
func Collections() []Archive {
	return slices.Concat(lies(), lists(), documents())
}

// lies say in MANIFEST.json and FILES.json other things than the archive holds.
func lies() []Archive {
	lie := func(name, rule, message string, change func(map[string]*Entry)) Archive {
		return Archive{Name: name, Rule: rule, Message: message, Content: func() []byte { return changed(change) }}
	}
	file := func(body string) *Entry { return &Entry{Body: body} }
	link := func(target string) *Entry { return &Entry{Type: tar.TypeSymlink, Link: target} }
	return []Archive{
		lie("changed playbook", "files-checksum", "caf\u00e9.yml", func(f map[string]*Entry) { f["caf\u00e9.yml"].Body = "- hosts: localhost\n" }),
		lie("changed module", "files-checksum", "demo.py", func(f map[string]*Entry) { f["plugins/modules/demo.py"].Body += "#" }),
		lie("file replaced by a link", "files-checksum", "demo.py", func(f map[string]*Entry) { f["plugins/modules/demo.py"] = link("../../README.md") }),
		lie("added module", "files-extra", "copy.py", func(f map[string]*Entry) { f["plugins/modules/copy.py"] = file("") }),
		lie("added folder", "files-extra", "library", func(f map[string]*Entry) { f["library/copy.py"] = file("") }),
		lie("added link to a folder", "files-extra", "library", func(f map[string]*Entry) { f["library"] = link("plugins/modules") }),
		lie("added ansible.cfg", "files-extra", "ansible.cfg", func(f map[string]*Entry) { f["ansible.cfg"] = file("[defaults]\n") }),
		lie("removed file", "files-missing", "a.yml", func(f map[string]*Entry) { delete(f, "roles/demo/tasks/a.yml") }),
		lie("file replaced by a folder", "files-missing", "a.yml", func(f map[string]*Entry) {
			delete(f, "roles/demo/tasks/a.yml")
			f["roles/demo/tasks/a.yml/x"] = file("")
		}),
		lie("decomposed name", "files-missing", "caf\u00e9.yml", func(f map[string]*Entry) {
			f["cafe\u0301.yml"] = f["caf\u00e9.yml"]
			delete(f, "caf\u00e9.yml")
		}),
		lie("name with a Cyrillic letter", "files-extra", "roles/demo/tasks/\u0430.yml", func(f map[string]*Entry) { f["roles/demo/tasks/\u0430.yml"] = file("") }),
		lie("changed FILES.json", "manifest-checksum", "MANIFEST.json", func(f map[string]*Entry) { f["FILES.json"].Body += "\n" }),
		lie("no FILES.json", "files-missing", "FILES.json", func(f map[string]*Entry) { delete(f, "FILES.json") }),
		lie("no checksum of FILES.json", "manifest-checksum", "file_manifest_file", func(f map[string]*Entry) {
			f["MANIFEST.json"].Body = strings.Replace(f["MANIFEST.json"].Body, "file_manifest_file", "File_manifest_file", 1)
		}),
	}
}

// lists are in FILES.json what MANIFEST.json says, and no honest list.
func lists() []Archive {
	list := func(name, rule, message, content string, times int) Archive {
		return Archive{Name: name, Rule: rule, Message: message, Content: func() []byte {
			return changed(func(f map[string]*Entry) {
				before := fmt.Sprintf("%x", sha256.Sum256([]byte(f["FILES.json"].Body)))
				parts := strings.Split(content, "|") // before, what is repeated, after
				f["FILES.json"].Body = parts[0] + strings.Repeat(parts[1], times) + parts[2] + strings.TrimPrefix(f["FILES.json"].Body, "{\n \"files\": [\n")
				after := fmt.Sprintf("%x", sha256.Sum256([]byte(f["FILES.json"].Body)))
				f["MANIFEST.json"].Body = strings.Replace(f["MANIFEST.json"].Body, before, after, 1)
			})
		}}
	}
	entry := func(name string) string {
		return `{"name": "` + name + `", "ftype": "file", "chksum_type": "sha256", "chksum_sha256": "` + strings.Repeat("0", 64) + `", "format": 1},`
	}
	const begin = `{"files": [`
	return []Archive{
		list("150,000 entries", "file", "larger", begin+"|"+entry("x")+"|", 150_000),
		list("a million short entries", "files-list", "path", begin+`|{},|`, 1_000_000),
		list("a million keys", "files-list", "keys", `{|"a": 1,|"files": [`, 1_000_000),
		list("deep nesting", "json", "depth", begin+"|[|", 1_000_000),
		list("listed twice", "files-list", "twice", begin+"|"+entry("README.md")+"|", 1),
		list("listed above", "files-list", "path", begin+"|"+entry("../README.md")+"|", 1),
		list("listed absolutely", "files-list", "path", begin+"|"+entry("/etc/passwd")+"|", 1),
		list("listed with a name in two ways", "files-list", "duplicate", begin+`|{"name": "a", "name": "b"},|`, 1),
		list("two lists", "files-list", "2", begin+`], "files": [||`, 1),
		list("FILES.json of 20 MiB", "file", "larger", "|"+strings.Repeat(" ", 1<<20)+"|"+begin, 20),
	}
}

// documents exhaust who reads YAML and JSON.
func documents() []Archive {
	in := func(name, file, rule, message string, content func() string) Archive {
		return Archive{Name: name, Rule: rule, Message: message, Content: func() []byte {
			folder := sound()
			folder[file] = &fstest.MapFile{Data: []byte(content()), Mode: 0o644}
			return built(folder)
		}}
	}
	aliases := func() string {
		var b strings.Builder
		b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
		for i := range 9 {
			fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
		}
		return b.String()
	}
	times := func(text string, n int) func() string { return func() string { return strings.Repeat(text, n) } }
	const config = "operator-config.yml"
	return []Archive{
		in("aliases of aliases", config, "yaml", "values", aliases),
		in("aliases of aliases in requirements.yml", "requirements.yml", "yaml", "values", aliases),
		in("aliases of aliases in meta/runtime.yml", "meta/runtime.yml", "yaml", "values", aliases),
		in("anchor in itself", config, "yaml", "deep", func() string { return "a: &a {b: *a}\n" }),
		in("merge of itself", config, "yaml", "deep", func() string { return "a: &a {<<: *a}\n" }),
		in("deep YAML", config, "yaml", "cannot be read", times("[", 1_000_000)),
		in("much structure", config, "yaml", "too large", times("-\n", 500_000)),
		in("10 MiB of one scalar", config, "file", "larger", func() string { return "domain: " + strings.Repeat("x", 10<<20) }),
		in("nearly 1 MiB of one scalar", config, "identity", "63", func() string { return "domain: " + strings.Repeat("x", 1<<20-100) + "\n" }),
		in("aliases in many defaults", config, "required", "required", func() string {
			var b strings.Builder
			b.WriteString("resources:\n- kind: Thing\n  vars:\n")
			for i := range 1000 {
				fmt.Fprintf(&b, "  - {name: v%d, type: string, array: true, default: '[&a [x,x,x,x], &b [*a,*a,*a,*a], &c [*b,*b,*b,*b], [*c,*c,*c,*c]]'}\n", i)
			}
			return b.String()
		}),
		in("two million requirements", "requirements.txt", "file", "larger", times("a\n", 3_000_000)),
		{Name: "deep MANIFEST.json", Rule: "json", Message: "depth", Content: func() []byte {
			return changed(func(f map[string]*Entry) { f["MANIFEST.json"].Body = strings.Repeat("[", 1_000_000) })
		}},
		{Name: "MANIFEST.json of 10 MiB", Rule: "file", Message: "larger", Content: func() []byte {
			return changed(func(f map[string]*Entry) { f["MANIFEST.json"].Body += strings.Repeat(" ", 10<<20) })
		}},
	}
}

// changed packs the sound archive anew after a change of its entries, by name.
func changed(change func(map[string]*Entry)) []byte {
	entries := map[string]*Entry{}
	must(archive.Walk(bytes.NewReader(Sound()), archive.Limits{}, func(name string, mode fs.FileMode, _ int64, content io.Reader) error {
		body, err := io.ReadAll(content)
		entries[name] = &Entry{Body: string(body)}
		if mode.IsDir() {
			entries[name].Type = tar.TypeDir
		}
		return err
	}))
	change(entries)
	var packed []Entry
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := *entries[name]
		entry.Name = name
		packed = append(packed, entry)
	}
	return Pack(packed...)
}
