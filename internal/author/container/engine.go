package container

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Engine is podman or docker.
type Engine struct{ name, path string }

// FindEngine returns podman, or docker if there is no podman.
func FindEngine() (Engine, error) {
	for _, name := range []string{podman, docker} {
		if path, err := exec.LookPath(name); err == nil {
			return Engine{name, path}, nil
		}
	}
	return Engine{}, errors.New("neither podman nor docker is on PATH: install one of them, or ansible-core and ansible-runner to run without --container")
}

// Platform returns operating system and architecture of an image that is on this machine, such as linux/amd64.
func (e Engine) Platform(ctx context.Context, image string) (string, error) {
	command := exec.CommandContext(ctx, e.path, "image", "inspect", "--format={{.Os}}/{{.Architecture}}", "--", image) //nolint:gosec // The author's own image.
	var stderr bytes.Buffer
	command.Stderr = &stderr
	platform, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("image %s cannot be used: %s: fetch it with `%s pull %s`, or name that of your cluster with --image (kubectl collection images lists them)",
			image, strings.TrimSpace(stderr.String()), e.name, image)
	}
	return strings.TrimSpace(string(platform)), nil
}

// Run runs a command in a new container and returns its exit code. If the context ends, or this process, the command gets SIGTERM; the container
// is removed when it has ended. An error means that there was no exit code of the command.
func (e Engine) Run(ctx context.Context, c Command, stdout, stderr io.Writer) (code int, err error) {
	if runtime.GOOS == "windows" {
		return 0, errors.New("a container cannot have the paths of Windows: use a Linux system, such as that of WSL")
	}
	folder, err := os.MkdirTemp("", "collection-container-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	passwd := filepath.Join(folder, "passwd")
	if err := os.WriteFile(passwd, []byte(c.User.passwd()), 0o644); err != nil { //nolint:gosec // It has no secret.
		return 0, err
	}
	args, err := c.arguments(e.name, passwd)
	if err != nil {
		return 0, err
	}
	command := exec.Command(e.path, args...) //nolint:gosec // The arguments are checked.
	command.Stdout, command.Stderr = patient{stdout}, patient{stderr}
	detach(command)
	input, err := command.StdinPipe()
	if err != nil {
		return 0, err
	}
	if err := command.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	defer close(ended)
	go hold(ctx, ended, input, started{c.Folder, c.Variables})
	err = command.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 0, err
	}
	if code = command.ProcessState.ExitCode(); code < 0 || code >= engineFailed {
		return 0, fmt.Errorf("%s could not run the container (exit code %d): what it printed says why", e.name, code)
	}
	return code, nil
}

// hold writes what the container needs to its standard input, which stays open until the context or the container has ended.
func hold(ctx context.Context, ended <-chan struct{}, input io.WriteCloser, s started) {
	_ = json.NewEncoder(input).Encode(s)
	select {
	case <-ctx.Done():
	case <-ended:
	}
	_ = input.Close()
}

// patient takes everything, also if its reader has gone, as head has: the engine would end otherwise.
type patient struct{ to io.Writer }

func (p patient) Write(content []byte) (int, error) {
	_, _ = p.to.Write(content)
	return len(content), nil
}
