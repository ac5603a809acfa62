package admin

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestImagesOfManifests(t *testing.T) {
	pinned := "registry.example.com/manager@sha256:" + strings.Repeat("1", 64)
	dir := t.TempDir()
	manifests, more, broken := filepath.Join(dir, "manifests.yaml"), filepath.Join(dir, "more.json"), filepath.Join(dir, "broken.yaml")
	clitest.Write(t, manifests, "# two documents\n---\nkind: StatefulSet\nspec: {template: {spec: {containers: [{image: '"+pinned+"'}]}}}\n---\nkind: ConfigMap\ndata: {runtimeImage: '"+pinned+"'}\n")
	clitest.Write(t, more, `{"kind": "List", "items": [{"kind": "OperatorCollection", "spec": {"runtime": {"image": "registry.example.com/runtime:v1"}}}]}`)
	clitest.Write(t, broken, "kind: [\n")
	for name, test := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"pinned":  {args: []string{"-f", manifests}, stdout: pinned + "\n"},
		"a tag":   {args: []string{"-f", manifests, "-f", more}, code: kit.ExitFindings, stdout: pinned + "\nregistry.example.com/runtime:v1\n", stderr: "registry.example.com/runtime:v1 has no digest"},
		"a set":   {args: []string{"-f", manifests, "-o", "oc-mirror"}, stdout: "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n  additionalImages:\n  - name: " + pinned + "\n"},
		"broken":  {args: []string{"-f", broken}, code: kit.ExitFailure, stderr: broken + ": "},
		"no file": {args: []string{"-f", filepath.Join(dir, "none")}, code: kit.ExitFailure, stderr: "none: no such file"},
		"output":  {args: []string{"-f", manifests, "-o", "json"}, code: kit.ExitFailure, stderr: `--output "json" is neither name nor oc-mirror`},
		"input":   {args: []string{"-f", "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := tool(t, append([]string{"images"}, test.args...)...)
			if code != test.code || stdout != test.stdout || !strings.Contains(stderr, test.stderr) || (test.stderr == "") != (stderr == "") {
				t.Errorf("%d\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}
