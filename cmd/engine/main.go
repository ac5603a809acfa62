// The engine is the program that stands between ansible-operator and ansible-runner in an operator's pod. Called as
// ansible-runner, it decides whether a playbook runs. `engine lock -- COMMAND ARGUMENTS` waits until this pod is the only one
// of the operator that runs playbooks, then becomes the command.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/collection-operator/collection-operator/internal/podclient"
	"github.com/collection-operator/collection-operator/internal/podlock"
	"github.com/collection-operator/collection-operator/internal/runner"
)

func main() {
	if filepath.Base(os.Args[0]) == "ansible-runner" {
		os.Exit(runner.Main(context.Background(), os.Args[1:]))
	}
	if len(os.Args) < 4 || os.Args[1] != "lock" || os.Args[2] != "--" {
		fmt.Fprintln(os.Stderr, "usage: engine lock -- COMMAND [ARGUMENTS]")
		os.Exit(2)
	}
	if err := lock(os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "lock:", err)
		os.Exit(1)
	}
}

func lock(command []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	settings, err := runner.ReadSettings()
	if err != nil {
		return err
	}
	client, err := podclient.New()
	if err != nil {
		return err
	}
	l, err := podlock.FromEnvironment(client, settings.Operator)
	if err != nil {
		return err
	}
	err = podlock.Exec(ctx, l, ":"+os.Getenv("ZOSCB_PROBE_PORT"), command)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
