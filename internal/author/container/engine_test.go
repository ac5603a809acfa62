//go:build unix

package container

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The tests are the program in the container.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case InitName:
		os.Exit(Init("program", os.Args[1:]))
	case "program":
		os.Exit(program(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// program does what its first argument says.
func program(args []string) int {
	folder, _ := os.Getwd()
	switch args[0] {
	case "tell":
		fmt.Printf("%q in %s, %s\n", args[1:], folder, os.Getenv("PASSWORD"))
		return 1
	case "wait":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("waiting")
		fmt.Println(<-signals)
		return 2
	}
	return 127
}

// engine returns a podman that runs the first process of its container on this machine, without a container.
func engine(t *testing.T) Engine {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.Symlink(own, filepath.Join(folder, InitName)); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nset -eu\nwhile [ \"$1\" != --entrypoint=/usr/local/bin/collection-init ]; do shift; done\nshift 2\nexec " + filepath.Join(folder, InitName) + " \"$@\"\n"
	path := filepath.Join(folder, podman)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // It is a program.
		t.Fatal(err)
	}
	return Engine{podman, path}
}

func TestAProgramGetsItsArgumentsFolderAndVariables(t *testing.T) {
	c := command()
	c.Folder, c.Arguments = t.TempDir(), []string{"tell", "a b", "--c"}
	var out bytes.Buffer
	code, err := engine(t).Run(t.Context(), c, &out, &out)
	if want := fmt.Sprintf("%q in %s, hunter2\n", c.Arguments[1:], c.Folder); code != 1 || err != nil || out.String() != want {
		t.Errorf("ended with %d, %v, and printed %s, want %s", code, err, &out, want)
	}
	c.Folder = filepath.Join(c.Folder, "none")
	out.Reset()
	if _, err := engine(t).Run(t.Context(), c, &out, &out); err != nil || !strings.Contains(out.String(), " in /, ") {
		t.Errorf("ended with %v and printed %s", err, &out)
	}
}

func TestTheEndOfTheContextEndsTheProgram(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := command()
	c.Arguments = []string{"wait"}
	out := &watched{text: "waiting", seen: cancel}
	code, err := engine(t).Run(ctx, c, out, out)
	if code != 2 || err != nil || out.String() != "waiting\nterminated\n" {
		t.Errorf("ended with %d, %v, and printed %s", code, err, out)
	}
}

// watched calls a function when it has a text.
type watched struct {
	bytes.Buffer
	text string
	seen func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.seen()
	}
	return n, err
}

func TestAnEngineThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), docker)
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no daemon >&2\nexit 125\n"), 0o700); err != nil { //nolint:gosec // It is a program.
		t.Fatal(err)
	}
	e := Engine{docker, path}
	var out bytes.Buffer
	if _, err := e.Run(t.Context(), command(), &out, &out); err == nil || !strings.Contains(err.Error(), "docker could not run the container (exit code 125)") {
		t.Error(err)
	}
	_, err := e.Platform(t.Context(), "runtime:v1")
	want := "image runtime:v1 cannot be used: no daemon: fetch it with `docker pull runtime:v1`, or name that of your cluster with --image (kubectl collection images lists them)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestNoEngine(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := FindEngine(); err == nil || !strings.Contains(err.Error(), "neither podman nor docker is on PATH") {
		t.Error(err)
	}
}
