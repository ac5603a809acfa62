package runs

import (
	"testing"

	"github.com/collection-operator/collection-operator/test/clitest"
)

func tool(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, Commands(), args...)
}
