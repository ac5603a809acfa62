package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

func TestCollectionsDoNotLoad(t *testing.T) {
	rules := map[string]bool{}
	for _, rule := range lint.Rules() {
		rules[rule.Name] = rule.Refused
	}
	for _, a := range Collections() {
		t.Run(a.Name, func(t *testing.T) {
			if !rules[a.Rule] {
				t.Errorf("%q is no rule because of which a collection is refused", a.Rule)
			}
			content := a.Content()
			if err := extract(t, content); err != nil {
				t.Fatal(err)
			}
			if got := outcomeOf(content); got.Rule[a.Rule] == "" || !strings.Contains(got.Rule[a.Rule], a.Message) {
				t.Errorf("got %+v, want a breach of %s that mentions %q", got, a.Rule, a.Message)
			}
		})
	}
	if got := outcomeOf(Sound()); got.Loaded == "" {
		t.Errorf("what they are made from does not load: %+v", got)
	}
}

// extract unpacks into a folder and fails the test if something lies beside it afterwards, or leads out of it.
func extract(t *testing.T, content []byte) error {
	t.Helper()
	outer := t.TempDir()
	dir := filepath.Join(outer, "root")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	refusal := archive.Extract(bytes.NewReader(content), root, archive.DefaultLimits)
	if beside, err := os.ReadDir(outer); err != nil || len(beside) != 1 {
		t.Errorf("something was written outside: %v, %v", beside, err)
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type() == fs.ModeSymlink {
			_, err = root.Stat(name) // fails if the link leads out
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return refusal
}

// outcome is what became of an archive, and the most memory that the process which read it took.
type outcome struct {
	Reason archive.Reason
	Rule   map[string]string // the message of the last breach of each rule that is refused
	Loaded string
	Failed string
	Memory int64
}

func outcomeOf(content []byte) outcome {
	files, err := archive.Read(bytes.NewReader(content), archive.DefaultLimits, model.Keep)
	var c *model.Collection
	if err == nil {
		c, err = model.Load(files)
	}
	var refused *archive.Error
	var problems findings.Problems
	switch {
	case errors.As(err, &refused):
		return outcome{Reason: refused.Reason}
	case errors.As(err, &problems):
		rules := map[string]string{}
		for _, problem := range problems.Refused() {
			rules[problem.Rule] = problem.String()
		}
		return outcome{Rule: rules}
	case err != nil:
		return outcome{Failed: err.Error()}
	}
	return outcome{Loaded: c.OperatorName()}
}

// maxMemory is what reading a hostile archive may take at most, with the limits that the manager uses. It is the whole
// process, of which the archive itself, as these tests hold it, is a part.
const maxMemory = 256 << 20

const archiveVariable = "HOSTILE_ARCHIVE"

func TestMain(m *testing.M) {
	path, isChild := os.LookupEnv(archiveVariable)
	if !isChild {
		os.Exit(m.Run())
	}
	if err := measure(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measure prints the outcome of an archive.
func measure(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	result := outcomeOf(content)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscanf(after, "%d kB", &result.Memory); err != nil {
		return err
	}
	result.Memory <<= 10
	return json.NewEncoder(os.Stdout).Encode(result)
}

// Each archive is read by a process of its own, which tells what it took.
func TestMemoryIsBounded(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "archive.tar.gz")
	var worst int64
	for _, a := range slices.Concat(Archives(archive.DefaultLimits), Collections()) {
		t.Run(a.Name, func(t *testing.T) {
			if err := os.WriteFile(path, a.Content(), 0o644); err != nil {
				t.Fatal(err)
			}
			command := exec.Command(self)
			command.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GOMEMLIMIT=") }), archiveVariable+"="+path)
			command.Stderr = os.Stderr
			output, err := command.Output()
			if err != nil {
				t.Fatal(err)
			}
			var got outcome
			if err := json.Unmarshal(output, &got); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d MiB", got.Memory>>20)
			worst = max(worst, got.Memory)
			if got.Reason != a.Reason || a.Rule != "" && got.Rule[a.Rule] == "" {
				t.Errorf("got %+v, want reason %q, rule %q", got, a.Reason, a.Rule)
			}
			if got.Memory > maxMemory {
				t.Errorf("took %d MiB, want at most %d", got.Memory>>20, maxMemory>>20)
			}
		})
	}
	t.Logf("the most was %d MiB", worst>>20)
}
