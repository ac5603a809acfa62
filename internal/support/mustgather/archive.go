// Package mustgather writes a redacted support archive with what a cluster has of collections: objects, events, logs and the report
// of package doctor. It has no secret: Secrets are there without content, and values that are or may be secret are replaced. It is pure.
package mustgather

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/support/doctor"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

const (
	// MaxBytes is the size of all files of an archive together, before they are compressed. What exceeds it is left out, and named.
	MaxBytes = 256 << 20
	// maxObjectBytes is the size of an object beyond which it is left out.
	maxObjectBytes = 2 << 20
	// maxLeftOut is the number of files that are named as left out.
	maxLeftOut = 1000
)

// Content of an archive.
type Content struct {
	Snapshot *snapshot.Snapshot
	Report   *doctor.Report
	Logs     []snapshot.Log
	// ToolVersion is the version of the tool.
	ToolVersion string
}

// Result says what is in an archive.
type Result struct {
	Files, LeftOut int
}

// Write writes an archive (tar, gzip) of at most MaxBytes before compression. All files are below the folder root. The same content gives
// the same bytes.
func Write(w io.Writer, root string, c Content) (Result, error) { return write(w, root, c, MaxBytes) }

func write(w io.Writer, root string, c Content, limit int) (Result, error) {
	compressed := gzip.NewWriter(w)
	a := &archive{tar: tar.NewWriter(compressed), root: root, content: c, redactor: newRedactor(c.Snapshot), limit: limit}
	files := a.objects()
	steps := []func() error{
		a.versions, a.report, a.secrets,
		func() error { return a.texts(files) },
		a.events, a.logs, a.unread,
		a.tar.Close, compressed.Close,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Result{}, err
		}
	}
	return a.result, nil
}

// archive is being written.
type archive struct {
	tar      *tar.Writer
	root     string
	content  Content
	redactor *redactor
	size     int
	limit    int
	leftOut  []string
	result   Result
}

// file is one of an archive, before secrets are removed from its text.
type file struct {
	name   string
	fields map[string]any
}

// add writes a file without secrets, if there is room.
func (a *archive) add(name, text string) error {
	text = a.redactor.text(text)
	if a.size += len(text); a.size > a.limit {
		a.size -= len(text)
		a.leaveOut(name)
		return nil
	}
	header := &tar.Header{
		Name: path.Join(a.root, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.content.Snapshot.Taken, Typeflag: tar.TypeReg,
	}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	a.result.Files++
	_, err := io.WriteString(a.tar, text)
	return err
}

func (a *archive) leaveOut(name string) {
	a.result.LeftOut++
	if len(a.leftOut) < maxLeftOut {
		a.leftOut = append(a.leftOut, name)
	}
}

// objects returns a file for each object. It must run before a text is written: the redactor learns secrets from objects.
func (a *archive) objects() []file {
	var files []file
	for _, kind := range a.content.Snapshot.Kinds() {
		if !isShown(kind) || kind == snapshot.Event {
			continue
		}
		for _, object := range a.content.Snapshot.Of(kind) {
			files = append(files, file{fileOf(kind, object), a.redactor.object(object)})
		}
	}
	return files
}

// fileOf returns the name of an object's file.
func fileOf(kind schema.GroupKind, object *unstructured.Unstructured) string {
	folder := "cluster"
	if namespace := object.GetNamespace(); namespace != "" {
		folder = path.Join("namespaces", safe(namespace))
	}
	return path.Join(folder, safe(strings.ToLower(kind.String())), safe(object.GetName())+".yaml")
}

// safe returns a name of one path element.
func safe(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, name)
	if strings.Trim(name, ".") == "" {
		return "_"
	}
	return name
}

func (a *archive) texts(files []file) error {
	for _, f := range files {
		// Before texts are broken into lines.
		text, err := yaml.Marshal(a.redactor.leaves(f.fields))
		if err != nil || len(text) > maxObjectBytes {
			a.leaveOut(f.name)
			continue
		}
		if err := a.add(f.name, string(text)); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) versions() error {
	return a.yaml("versions.yaml", map[string]any{
		"kubectl-collection": a.content.ToolVersion, "server": a.content.Snapshot.ServerVersion,
		"taken": a.content.Snapshot.Taken.UTC(), "managers": a.content.Report.Managers,
	})
}

func (a *archive) yaml(name string, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	return a.add(name, string(text))
}

// report writes what doctor found.
func (a *archive) report() error {
	report := *a.content.Report
	report.Findings = slices.Clone(report.Findings)
	for i := range report.Findings {
		report.Findings[i].Message = a.redactor.text(report.Findings[i].Message) // Before it is cut.
	}
	var text bytes.Buffer
	if err := report.Print(&text, func(s findings.Severity) string { return string(s) }); err != nil {
		return err
	}
	encoded, err := json.MarshalIndent(&report, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(a.add("doctor.txt", text.String()+report.Summary()+"\n"), a.add("doctor.json", string(encoded)+"\n"))
}

// secrets writes a file for each namespace with its Secrets, without content.
func (a *archive) secrets() error {
	all := a.content.Snapshot.Secrets
	for len(all) > 0 {
		namespace := all[0].Namespace
		end := slices.IndexFunc(all, func(s snapshot.Secret) bool { return s.Namespace != namespace })
		if end < 0 {
			end = len(all)
		}
		if err := a.yaml(path.Join("namespaces", safe(namespace), "secrets-without-content.yaml"), all[:end]); err != nil {
			return err
		}
		all = all[end:]
	}
	return nil
}

// events writes a line for each event, in the order in which they happened.
func (a *archive) events() error {
	lines := map[string][]string{}
	for _, event := range a.content.Snapshot.Of(snapshot.Event) {
		text := func(fields ...string) string {
			value, _, _ := unstructured.NestedString(event.Object, fields...)
			return strings.Join(strings.Fields(value), " ")
		}
		count, _, _ := unstructured.NestedInt64(event.Object, "count")
		when := cmp.Or(text("lastTimestamp"), text("eventTime"), text("metadata", "creationTimestamp"))
		lines[event.GetNamespace()] = append(lines[event.GetNamespace()], fmt.Sprintf("%s %s %s %s/%s x%d: %s", when, text("type"), text("reason"),
			strings.ToLower(text("involvedObject", "kind")), text("involvedObject", "name"), max(count, 1), text("message")))
	}
	for _, namespace := range slices.Sorted(maps.Keys(lines)) {
		slices.Sort(lines[namespace])
		if err := a.add(path.Join("namespaces", safe(namespace), "events.txt"), strings.Join(lines[namespace], "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (a *archive) logs() error {
	for _, log := range a.content.Logs {
		name := safe(log.Container)
		if log.Previous {
			name += ".previous"
		}
		if err := a.add(path.Join("namespaces", safe(log.Namespace), "logs", safe(log.Pod), name+".log"), string(log.Text)); err != nil {
			return err
		}
	}
	return nil
}

// unread writes what is missing.
func (a *archive) unread() error {
	lines := slices.Clone(a.content.Snapshot.Unread)
	for _, name := range a.leftOut {
		lines = append(lines, name+" is too large, or the archive is")
	}
	if len(lines) == 0 {
		return nil
	}
	a.size = 0 // It has its own limit.
	return a.add("not-in-this-archive.txt", strings.Join(lines, "\n")+"\n")
}
