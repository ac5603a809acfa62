package localrun

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// victim is the environment variable with the file that the program to kill waits for.
const victim = "LOCALRUN_VICTIM"

// The playbook writes its process and its home folder to a file, and waits.
const waiting = `- hosts: all
  gather_facts: false
  tasks:
    - name: Wait
      ansible.builtin.shell: echo "$$ $HOME" > {{ path | quote }}.new; mv {{ path | quote }}.new {{ path | quote }}; while test -e {{ path | quote }}; do sleep 1; done
`

// TestVictim is the program that the next test kills.
func TestVictim(t *testing.T) {
	file := os.Getenv(victim)
	if file == "" {
		return // Another test starts this one.
	}
	o, _ := options(t, Login{Local: true}, file)
	o.Source, o.Output = sourceOf(t, waiting), os.Stdout
	_, err := Run(t.Context(), o)
	t.Errorf("the run has ended: %v", err)
}

func TestNothingOutlivesAProgramThatIsKilled(t *testing.T) {
	need(t)
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	command := exec.Command(self, "-test.run=^TestVictim$")
	command.Env = append(os.Environ(), victim+"="+file, "TMPDIR="+dir)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var output strings.Builder
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		output.WriteString(scanner.Text() + "\n")
		if strings.Contains(scanner.Text(), "TASK [Wait]") {
			break
		}
	}
	eventually(t, "the playbook waits:\n"+output.String(), func() bool {
		_, err := os.Stat(file)
		return err == nil
	})
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	process, home, _ := strings.Cut(strings.TrimSpace(string(content)), " ")
	pid, err := strconv.Atoi(process)
	if err != nil || !strings.HasPrefix(home, "/tmp/kc") {
		t.Fatalf("the playbook wrote %q", content)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	eventually(t, "the playbook has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	folder := filepath.Join("/tmp", strings.Split(home, "/")[2])
	eventually(t, "the folder with the credential is gone", func() bool {
		_, err := os.Stat(folder)
		return os.IsNotExist(err)
	})
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 1200 {
		if reached() {
			return
		}
		<-ticker.C
	}
	t.Fatalf("not reached: %s", what)
}
