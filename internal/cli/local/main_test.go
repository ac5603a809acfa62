package local

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, testCommands(), args...)
}

func mustRun(t *testing.T, code int, args ...string) string {
	t.Helper()
	return clitest.MustRun(t, testCommands(), code, args...)
}

// testCommands are those of this package, and those that make collections.
func testCommands() []*cobra.Command { return slices.Concat(author.Commands(), Commands()) }
