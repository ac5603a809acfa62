package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func sleeper(t *testing.T) (supervisor, process) {
	t.Helper()
	dir := t.TempDir()
	s := supervisor{runDir: filepath.Join(dir, "run"), logDir: filepath.Join(dir, "log")}
	t.Cleanup(func() { _ = s.stop(context.Background(), "sleeper") })
	return s, process{name: "sleeper", argv: []string{"/bin/sleep", "300"}, ready: func(context.Context) error { return nil }}
}

func ensureStarted(t *testing.T, s supervisor, want process, expect bool) record {
	t.Helper()
	started, err := s.ensure(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	if started != expect {
		t.Fatalf("started = %v, want %v", started, expect)
	}
	have, _ := s.read(want.name)
	if !have.alive() {
		t.Fatal("the process does not run")
	}
	return have
}

func TestEnsureKeepsWhatRunsAsWanted(t *testing.T) {
	s, want := sleeper(t)
	first := ensureStarted(t, s, want, true)
	if second := ensureStarted(t, s, want, false); second != first {
		t.Errorf("the process changed from %+v to %+v", first, second)
	}
}

func TestEnsureReplacesWhatIsNotAsWanted(t *testing.T) {
	s, want := sleeper(t)
	first := ensureStarted(t, s, want, true)
	want.argv = []string{"/bin/sleep", "301"}
	ensureStarted(t, s, want, true)
	if first.alive() {
		t.Error("the old process still runs")
	}
}

func TestEnsureStartsWhatHasDied(t *testing.T) {
	s, want := sleeper(t)
	first := ensureStarted(t, s, want, true)
	process, err := os.FindProcess(first.PID)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := waitFor(t.Context(), "the end", 5*time.Second, func(context.Context) error {
		if first.alive() {
			return errors.New("alive")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ensureStarted(t, s, want, true)
}

func TestWatchReportsTheLogOfWhatEnds(t *testing.T) {
	s, want := sleeper(t)
	want.argv = []string{"/bin/sh", "-c", "echo no space left on device; exec sleep 300"}
	want.ready = func(context.Context) error {
		if s.tail(want.name, 1) == "" {
			return errors.New("it has printed nothing")
		}
		return nil
	}
	have := ensureStarted(t, s, want, true)
	ended := s.watch(t.Context())
	if err := syscall.Kill(have.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := runCommand([]string{"/bin/sleep", "300"}, nil, nil, ended); err == nil || !contains(err.Error(), "sleeper has ended", "no space left on device") {
		t.Errorf("got %v", err)
	}
}

func TestEnsureReportsTheLogOfWhatEndsAtOnce(t *testing.T) {
	s, want := sleeper(t)
	want.argv = []string{"/bin/sh", "-c", "echo broken configuration; exit 1"}
	want.ready = func(context.Context) error { return errors.New("no answer") }
	_, err := s.ensure(t.Context(), want)
	if err == nil || !contains(err.Error(), "the process has ended", "broken configuration") {
		t.Errorf("error = %v", err)
	}
}

func TestStopLeavesAReusedProcessIDAlone(t *testing.T) {
	s, want := sleeper(t)
	have := ensureStarted(t, s, want, true)
	for name, stale := range map[string]string{
		"other start":     `{"pid":` + itoa(have.PID) + `,"start":"1","boot":"` + have.Boot + `"}`,
		"earlier boot":    `{"pid":` + itoa(have.PID) + `,"start":"` + have.Start + `","boot":"earlier"}`,
		"torn by a crash": `{"pid":` + itoa(have.PID),
	} {
		t.Run(name, func(t *testing.T) {
			if err := writeFile(s.recordFile("stale"), stale, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := s.stop(t.Context(), "stale"); err != nil {
				t.Fatal(err)
			}
			if !have.alive() {
				t.Fatal("a process that was not recorded has been ended")
			}
			if _, ok := s.read("stale"); ok {
				t.Error("the stale record is still there")
			}
		})
	}
}

func TestWaitForReportsTheLastAnswer(t *testing.T) {
	err := waitFor(t.Context(), "the impossible", 10*time.Millisecond, func(context.Context) error { return errors.New("not today") })
	if err == nil || !contains(err.Error(), "the impossible", "not today") {
		t.Errorf("error = %v", err)
	}
}

func TestKillIgnoresThatAProcessIgnoresSIGTERM(t *testing.T) {
	s, want := sleeper(t)
	want.argv = []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}
	deaf := ensureStarted(t, s, want, true)
	start := time.Now()
	if err := s.kill(t.Context(), want.name); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); deaf.alive() || took > 5*time.Second {
		t.Errorf("alive: %v after %v", deaf.alive(), took)
	}
}
