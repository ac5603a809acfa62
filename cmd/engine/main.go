// The engine is the program that stands between ansible-operator and ansible-runner in an operator's pod. Called as
// ansible-runner, it decides whether a playbook runs. `engine lock` ends when this pod is the only one of the operator that
// runs playbooks. `engine environment -- COMMAND ARGUMENTS` becomes the command with the variables of spec.runtime.envFrom.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/run/runner"
)

// maxIgnoredBytes limits what is logged about names of variables.
const maxIgnoredBytes = 1024

func main() {
	if filepath.Base(os.Args[0]) == "ansible-runner" {
		os.Exit(runner.Main(context.Background(), runner.DefaultIntervals(), os.Args[1:]))
	}
	var err error
	switch arguments := os.Args[1:]; {
	case len(arguments) == 1 && arguments[0] == "lock":
		err = runner.Lock(context.Background())
	case len(arguments) > 2 && arguments[0] == "environment" && arguments[1] == "--":
		err = takeEnvironment(arguments[2:])
	default:
		fmt.Fprintln(os.Stderr, "usage: engine lock | engine environment -- COMMAND [ARGUMENTS]")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func takeEnvironment(command []string) error {
	variables, ignored := environment.Take(os.Environ())
	if len(ignored) > 0 {
		fmt.Fprintf(os.Stderr, "environment: runtime.envFrom cannot set %s\n", printable.Line(fmt.Sprintf("%q", ignored), maxIgnoredBytes))
	}
	variables, err := environment.PodOf(os.Getenv).Complete(variables)
	if err != nil {
		fmt.Fprintln(os.Stderr, "environment:", err)
	}
	return syscall.Exec(command[0], command, variables)
}
