package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"
)

// process describes a long-running component.
type process struct {
	name   string
	argv   []string
	inputs []string // files whose change requires a restart
	ready  func(context.Context) error
}

// record identifies a process that was started: its process ID alone may have been reused.
type record struct {
	PID         int    `json:"pid"`
	Start       string `json:"start"` // start time of the process according to the kernel
	Boot        string `json:"boot"`
	Fingerprint string `json:"fingerprint"`
}

// alive reports whether the recorded process still runs.
func (r record) alive() bool {
	if r.PID <= 0 || r.Boot != bootID() {
		return false
	}
	start, ok := processStart(r.PID)
	return ok && start == r.Start
}

// supervisor manages processes that continue to run after this program.
type supervisor struct {
	runDir string // one record per process
	logDir string
}

// ensure keeps a process that is up to date and ready, and otherwise restarts it. It returns when the process is ready.
func (s supervisor) ensure(ctx context.Context, want process) (started bool, err error) {
	fingerprint, err := want.fingerprint()
	if err != nil {
		return false, err
	}
	if have, ok := s.read(want.name); ok && have.alive() {
		if have.Fingerprint == fingerprint && waitFor(ctx, want.name, 10*time.Second, want.ready) == nil {
			return false, nil
		}
		if err := s.stop(ctx, want.name); err != nil {
			return false, err
		}
	}
	if err := s.start(want, fingerprint); err != nil {
		return false, fmt.Errorf("start %s: %w", want.name, err)
	}
	err = waitFor(ctx, want.name, 2*time.Minute, func(ctx context.Context) error {
		err := want.ready(ctx)
		if have, _ := s.read(want.name); err != nil && !have.alive() {
			return permanentError{errors.New("the process has ended")}
		}
		return err
	})
	if err != nil {
		return true, fmt.Errorf("%w\n%s ends with:\n%s", err, s.logFile(want.name), s.tail(want.name, 15))
	}
	return true, nil
}

func (s supervisor) start(want process, fingerprint string) error {
	for _, dir := range []string{s.runDir, s.logDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if info, err := os.Stat(s.logFile(want.name)); err == nil && info.Size() > 32<<20 {
		if err := os.Rename(s.logFile(want.name), s.logFile(want.name)+".1"); err != nil {
			return err
		}
	}
	output, err := os.OpenFile(s.logFile(want.name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer output.Close()
	command := exec.Command(want.argv[0], want.argv[1:]...)
	command.Env = cleanEnvironment()
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return err
	}
	go func() { _ = command.Wait() }() // Reaps the process if it ends first.
	start, _ := processStart(command.Process.Pid)
	content, err := json.Marshal(record{PID: command.Process.Pid, Start: start, Boot: bootID(), Fingerprint: fingerprint})
	if err != nil {
		return err
	}
	return writeFile(s.recordFile(want.name), string(content), 0o644)
}

// watch sends one error when a recorded process has ended that runs now. It returns when all records are read.
func (s supervisor) watch(ctx context.Context) <-chan error {
	running := map[string]record{}
	for _, name := range s.names() {
		if have, _ := s.read(name); have.alive() {
			running[name] = have
		}
	}
	ended := make(chan error, 1)
	go func() {
		ticks := time.NewTicker(time.Second)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
			var errs []error
			for _, name := range slices.Sorted(maps.Keys(running)) {
				if !running[name].alive() {
					errs = append(errs, fmt.Errorf("%s has ended; %s ends with:\n%s", name, s.logFile(name), s.tail(name, 8)))
				}
			}
			if len(errs) > 0 {
				ended <- errors.Join(errs...)
				return
			}
		}
	}()
	return ended
}

// signaling is a signal that ends a process, and how long the process may take.
type signaling struct {
	signal syscall.Signal
	limit  time.Duration
}

// stop ends a process and waits for its end. It returns nil if the process does not run.
func (s supervisor) stop(ctx context.Context, name string) error {
	return s.end(ctx, name, signaling{syscall.SIGTERM, 15 * time.Second}, signaling{syscall.SIGKILL, 10 * time.Second})
}

// kill is stop without a chance for the process to do anything before its end.
func (s supervisor) kill(ctx context.Context, name string) error {
	return s.end(ctx, name, signaling{syscall.SIGKILL, 10 * time.Second})
}

func (s supervisor) end(ctx context.Context, name string, steps ...signaling) error {
	have, ok := s.read(name)
	if !ok {
		return nil
	}
	gone := func(context.Context) error {
		if have.alive() {
			return errors.New("still running")
		}
		return nil
	}
	for _, step := range steps {
		if have.alive() {
			_ = syscall.Kill(have.PID, step.signal)
			_ = waitFor(ctx, name+" to end", step.limit, gone)
		}
	}
	if have.alive() {
		return fmt.Errorf("%s (process %d) does not end", name, have.PID)
	}
	return os.Remove(s.recordFile(name))
}

// names lists the recorded processes, running or not.
func (s supervisor) names() []string {
	files, _ := filepath.Glob(filepath.Join(s.runDir, "*.json"))
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	sort.Strings(names)
	return names
}

func (s supervisor) read(name string) (record, bool) {
	content, err := os.ReadFile(s.recordFile(name))
	if err != nil {
		return record{}, false
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return record{}, true // incomplete after a crash
	}
	return r, true
}

func (s supervisor) recordFile(name string) string { return filepath.Join(s.runDir, name+".json") }
func (s supervisor) logFile(name string) string    { return filepath.Join(s.logDir, name+".log") }

// tail returns the last lines of a component's log.
func (s supervisor) tail(name string, lines int) string {
	file, err := os.Open(s.logFile(name))
	if err != nil {
		return ""
	}
	defer file.Close()
	const window = 256 << 10
	if info, err := file.Stat(); err == nil && info.Size() > window {
		_, _ = file.Seek(-window, io.SeekEnd)
	}
	content, _ := io.ReadAll(io.LimitReader(file, window))
	return tail(string(content), lines)
}

// fingerprint changes with the command line, the binary and the inputs.
func (p process) fingerprint() (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q\n", p.argv)
	info, err := os.Stat(p.argv[0])
	if err != nil {
		return "", err
	}
	fmt.Fprintln(sum, info.Size(), info.ModTime().UnixNano())
	for _, input := range p.inputs {
		content, err := os.ReadFile(input)
		if err != nil {
			return "", err
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// cleanEnvironment keeps proxies out: the components talk to each other only. DEVCLUSTER_GOGC is their GOGC: with 400,
// integration specs need a quarter less processor time, and their API servers more memory.
func cleanEnvironment() []string {
	var keep []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			keep = append(keep, name+"="+value)
		}
	}
	if value, ok := os.LookupEnv("DEVCLUSTER_GOGC"); ok {
		keep = append(keep, "GOGC="+value)
	}
	return keep
}
