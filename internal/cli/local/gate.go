//go:build unix

package local

import (
	"context"
	"os"
	"path/filepath"

	"github.com/collection-operator/collection-operator/internal/author/container"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/run/runner"
)

// AsInit makes this program the first process of a container if the flag --container has started it.
func AsInit() {
	if filepath.Base(os.Args[0]) == container.InitName {
		os.Exit(container.Init(kit.ToolName, os.Args[1:]))
	}
}

// AsGate makes this program the gate if the command run has started it as ansible-runner. Ansible needs Unix, too.
func AsGate() {
	if filepath.Base(os.Args[0]) == "ansible-runner" {
		localrun.EndWithParent(runner.KillChildren)
		os.Exit(runner.Main(context.Background(), runner.DefaultIntervals(), os.Args[1:]))
	}
}
