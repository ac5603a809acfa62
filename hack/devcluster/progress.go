package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

var began = time.Now()

// note prints a line about progress, with the time since this command began.
func note(format string, args ...any) {
	elapsed := int(time.Since(began).Seconds())
	fmt.Fprintf(os.Stderr, "[%02d:%02d] %s\n", elapsed/60, elapsed%60, fmt.Sprintf(format, args...))
}

// progress reads a line that a command has printed, and returns how far the command is, or "" if the line does not say.
type progress func(line string) string

// runNoting runs a command that may take minutes, and notes how far it is.
func runNoting(what string, command *exec.Cmd, read progress) error {
	start := time.Now()
	printed := &transcript{read: read}
	command.Stderr = printed
	if command.Stdout == nil {
		command.Stdout = printed
	}
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	heartbeat := time.NewTicker(15 * time.Second)
	defer heartbeat.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", what, err, tail(printed.String(), 30))
			}
			note("%s: done in %.0f s", what, time.Since(start).Seconds())
			return nil
		case <-heartbeat.C:
			note("%s: %s", what, printed.status(time.Since(start)))
		}
	}
}

// transcript is what a command has printed.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
	line string // its incomplete end
	far  string
	read progress
}

func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	lines := strings.Split(t.line+string(p), "\n")
	t.line = lines[len(lines)-1]
	for _, line := range lines[:len(lines)-1] {
		if far := t.read(strings.TrimSpace(line)); far != "" {
			t.far = far
		}
	}
	return len(p), nil
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

func (t *transcript) status(elapsed time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.far == "" {
		return fmt.Sprintf("%.0f s", elapsed.Seconds())
	}
	return t.far
}

// compileProgress counts the packages that `go build -v` names. When all are compiled, the last programs are linked.
func compileProgress(total int) progress {
	count := 0
	return func(line string) string {
		if line != "" && !strings.ContainsAny(line, " :") {
			count++
		}
		if count >= total {
			return "links programs"
		}
		return fmt.Sprintf("%d of %d packages", count, total)
	}
}

// downloadProgress counts the modules that go downloads. It is not known beforehand how many these are.
func downloadProgress() progress {
	count := 0
	return func(line string) string {
		if strings.HasPrefix(line, "go: downloading ") {
			count++
		}
		return fmt.Sprintf("%d modules downloaded", count)
	}
}

var buildahStep = regexp.MustCompile(`^(?:\[\d+/\d+\] )?STEP (\d+)/(\d+): (.*)`)

// imageProgress returns which instruction of a Dockerfile buildah runs, and the last line that it has printed.
func imageProgress() progress {
	step := ""
	return func(line string) string {
		if match := buildahStep.FindStringSubmatch(line); match != nil {
			step, line = fmt.Sprintf("step %s of %s: ", match[1], match[2]), match[3]
		}
		if line == "" {
			return ""
		}
		return step + lastLine(line)
	}
}

// lastLine returns the beginning of a line.
func lastLine(line string) string {
	text := []rune(line)
	return string(text[:min(60, len(text))])
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
