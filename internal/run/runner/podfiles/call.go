package podfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Call is a call of ansible-runner by ansible-operator.
type Call struct {
	// Dir is the run folder, Playbook the path of the playbook, and Ident the name of the run.
	Dir, Playbook, Ident string
}

// ParseCall reads the arguments "run DIR --rotate-artifacts N -p PLAYBOOK -i IDENT [-v...]". The number of artifacts and the
// verbosity are not ansible-operator's to decide.
func ParseCall(args []string) (Call, error) {
	var c Call
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case slices.Contains([]string{"--rotate-artifacts", "-p", "-i"}, arg):
			i++
			if i == len(args) {
				return Call{}, fmt.Errorf("argument %s has no value", arg)
			}
			switch arg {
			case "-p":
				c.Playbook = args[i]
			case "-i":
				c.Ident = args[i]
			}
		case arg[:min(2, len(arg))] == "-v":
		case c.Dir == "":
			c.Dir = arg
		default:
			return Call{}, fmt.Errorf("unexpected argument %s", arg)
		}
	}
	if c.Dir == "" || c.Playbook == "" || c.Ident == "" {
		return Call{}, errors.New("usage: ansible-runner run DIR --rotate-artifacts N -p PLAYBOOK -i IDENT")
	}
	return c, nil
}

// Kind is a kind of custom resources.
type Kind struct {
	Kind     string
	Resource schema.GroupVersionResource
}

// Resource returns the custom resource of a call, which ansible-operator names its folder after: GROUP/VERSION/KIND/NAMESPACE/NAME.
func (c Call) Resource() (kind Kind, namespace, name string) {
	parts := strings.Split(filepath.Clean(c.Dir), string(filepath.Separator))
	if len(parts) < 5 {
		return Kind{}, "", ""
	}
	parts = parts[len(parts)-5:]
	kind.Kind, namespace, name = parts[2], parts[3], parts[4]
	kind.Resource = schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: strings.ToLower(kind.Kind) + "s"}
	return kind, namespace, name
}

// ExtraVarsFile has the variables of the playbook.
func (c Call) ExtraVarsFile() string { return filepath.Join(c.Dir, "env", "extravars") }

// SettingsFile has the settings of ansible-runner, and the address of ansible-operator until the folder is prepared.
func (c Call) SettingsFile() string { return filepath.Join(c.Dir, "env", "settings") }

// OptionsFile has the last options --cmdline. ansible-runner writes it, and uses it when it is called without that option.
func (c Call) OptionsFile() string { return filepath.Join(c.Dir, "env", "cmdline") }

// ReportFile is written by the engine during the run.
func (c Call) ReportFile() string { return filepath.Join(c.Dir, "report.json") }

// Report returns what the engine has reported so far.
func (c Call) Report() (runstatus.Report, error) {
	var report runstatus.Report
	err := ReadJSON(c.ReportFile(), &report)
	return report, err
}

// Artifacts are those of all runs of the resource.
func (c Call) Artifacts() Artifacts { return Artifacts(filepath.Join(c.Dir, "artifacts")) }

// LockFolder takes the lock of a resource's run folder. It returns nil if another process has it, or has removed the folder since it was
// opened. The lock ends when the file is closed here and in each process that inherited it.
func LockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, "run.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o660)
	if err != nil {
		return nil, err
	}
	isHeld, err := lockFile(file, path)
	if isHeld {
		return file, nil
	}
	_ = file.Close()
	return nil, err
}

// lockFile reports whether it has locked the file that is now at a path. The lock of one that was removed keeps nobody away.
func lockFile(file *os.File, path string) (bool, error) {
	err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	locked, err := file.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(locked, there), ignoreMissing(err)
}

// ArtifactsLimit returns how many runs of a resource are kept: the annotation, within bounds, or what the settings say.
func ArtifactsLimit(annotation string, settings int) int {
	if n, err := strconv.Atoi(annotation); err == nil {
		settings = n
	}
	return min(max(settings, 1), gate.MaxArtifacts)
}

// Artifacts is the folder with one folder for each run of a resource. ansible-operator makes the link "latest" to the folder
// of each call, whether that ran or not.
type Artifacts string

// realRuns returns the folders of runs, the latest first.
func (a Artifacts) realRuns() ([]string, error) {
	entries, err := os.ReadDir(string(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []fs.FileInfo
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		runs = append(runs, info)
	}
	slices.SortFunc(runs, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = run.Name()
	}
	return names, nil
}

// Rotate removes all but the latest runs.
func (a Artifacts) Rotate(keep int) error {
	runs, err := a.realRuns()
	for _, run := range runs[min(keep, len(runs)):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(string(a), run)))
	}
	return err
}

// RemoveLinks removes the links of calls that did not run, except for the one to which "latest" leads until ansible-operator changes that.
func (a Artifacts) RemoveLinks() error {
	entries, err := os.ReadDir(string(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	latest, _ := os.Readlink(filepath.Join(string(a), "latest")) // There may be none.
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 && entry.Name() != "latest" && entry.Name() != filepath.Base(latest) {
			err = errors.Join(err, os.Remove(filepath.Join(string(a), entry.Name())))
		}
	}
	return err
}

// End makes the folder of a call that did not run a link to the last run, so that "latest" leads there.
func (a Artifacts) End(ident string) error {
	if err := os.MkdirAll(string(a), 0o770); err != nil {
		return err
	}
	if err := a.RemoveLinks(); err != nil {
		return err
	}
	runs, err := a.realRuns()
	if err != nil || len(runs) == 0 || runs[0] == ident {
		return err
	}
	return os.Symlink(runs[0], filepath.Join(string(a), ident))
}
