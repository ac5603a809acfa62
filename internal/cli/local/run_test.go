package local

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestRunReportsAllWrongFlags(t *testing.T) {
	code, _, stderr := tool(t, "run", clitest.FilesCollection, "DataFile", "--namespace", "A", "--event", "delete", "--check",
		"--password-env", "NO_SUCH_VARIABLE", "--secret-env", "x=y", "--secret-file", "a/b="+filepath.Join(t.TempDir(), "no"))
	if code != kit.ExitFailure {
		t.Errorf("ended with %d", code)
	}
	for _, part := range []string{"--filename", `--namespace "A"`, "--check is for", "NO_SUCH_VARIABLE", `--secret-env "x=y"`, "--secret-file: open"} {
		if !strings.Contains(stderr, part) {
			t.Errorf("%s\nhas no %s", stderr, part)
		}
	}
}

func TestRunHasThreeEnds(t *testing.T) {
	resource := func(outcome string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"lastRun": map[string]any{"outcome": outcome}}}}
	}
	if err := verdict(localrun.Result{Resource: resource("Succeeded"), Ran: true}); err != nil {
		t.Error(err)
	}
	if err := verdict(localrun.Result{Resource: resource("Failed"), Ran: true}); !errors.Is(err, kit.ErrFindings) {
		t.Error(err)
	}
	if err := verdict(localrun.Result{Resource: resource("Succeeded")}); err == nil || errors.Is(err, kit.ErrFindings) {
		t.Error(err)
	}
}
