//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/collection-operator/collection-operator/internal/localrun"
	"github.com/collection-operator/collection-operator/internal/runner"
)

// asGate makes this program the gate if the command run has started it as ansible-runner. Ansible needs Unix, too.
func asGate() {
	if filepath.Base(os.Args[0]) == "ansible-runner" {
		localrun.EndWithParent(runner.KillChildren)
		os.Exit(runner.Main(context.Background(), os.Args[1:]))
	}
}
