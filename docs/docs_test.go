// Package docs_test keeps the user guide true to the code.
package docs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestReadmeShowsTheSample(t *testing.T) {
	if sample := read(t, "../config/samples/all-in-one.yaml"); !strings.Contains(read(t, "../README.md"), "```yaml\n"+sample+"```\n") {
		t.Error("README.md does not show config/samples/all-in-one.yaml as it is")
	}
}

// The control plane of `make test-oldest` is of that version. OpenShift 4.x contains Kubernetes 1.(x+13).
func TestTheOldestKubernetesIsTheSameEverywhere(t *testing.T) {
	var minor int
	if _, err := fmt.Sscanf(render.MinKubeVersion, "1.%d.0", &minor); err != nil {
		t.Fatalf("MinKubeVersion %s: %v", render.MinKubeVersion, err)
	}
	platforms := fmt.Sprintf("Kubernetes 1.%d or later, or OpenShift 4.%d or later", minor, minor-13)
	for path, want := range map[string]string{
		"../README.md":                             platforms,
		"install.md":                               platforms,
		"../hack/chart/files/Chart.yaml":           `kubeVersion: ">=` + render.MinKubeVersion + `-0"`,
		"../charts/collection-operator/Chart.yaml": `kubeVersion: ">=` + render.MinKubeVersion + `-0"`,
		"../config/manifests/bases/collection-operator.clusterserviceversion.yaml": "minKubeVersion: " + render.MinKubeVersion + "\n",
		"../hack/devcluster/components/kubernetes-oldest/go.mod":                   fmt.Sprintf("k8s.io/kubernetes v1.%d.", minor),
	} {
		if !strings.Contains(read(t, path), want) {
			t.Errorf("%s does not contain %q", path, want)
		}
	}
}

func TestEveryReasonIsExplained(t *testing.T) {
	pages, err := filepath.Glob("spec/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, page := range pages {
		all.WriteString(read(t, page))
	}
	words := constant.FindAllStringSubmatch(read(t, "../api/v2beta2/conditions.go"), -1)
	if len(words) == 0 {
		t.Fatal("no reasons and condition types found: has the file moved?")
	}
	for _, found := range words {
		word := found[1]
		if !strings.Contains(all.String(), "`"+word+"`") {
			t.Errorf("no page in docs/spec explains %s", word)
		}
	}
}

// reasons are the patterns of all reasons that a condition, status.phase or status.waiting may have, by the file that declares them.
var reasons = map[string]string{
	"../api/v2beta2/conditions.go":            `(?m)^\tReason\w+ = "(\w+)"$`,
	"../internal/run/endpoint/request.go":     `(?m)^\tReason\w+ +Reason = "(\w+)"$`,
	"../internal/run/runner/waiting.go":       `(?m)^\treason\w+ endpoint\.Reason = "(\w+)"$`,
	"../internal/run/runstatus/conditions.go": `(?m)^\treason\w+ += "(\w+)"$`,
	"../internal/run/runstatus/drift.go":      `(?m)^\tReason\w+ = "(\w+)"$`,
	"../internal/run/runstatus/types.go":      `(?m)^(?:\tPhase\w+ +Phase|const Reason\w+) = "(\w+)"$`,
}

func TestOperationsHaveEveryReason(t *testing.T) {
	_, table, found := strings.Cut(read(t, "operations.md"), "\n## Reasons\n")
	if !found {
		t.Fatal("operations.md has no heading Reasons")
	}
	explained := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(table, -1) {
		if explained[row[1]] {
			t.Errorf("operations.md explains %s twice", row[1])
		}
		explained[row[1]] = true
	}
	declared := map[string]bool{}
	for file, pattern := range reasons {
		matches := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
		if len(matches) == 0 {
			t.Errorf("%s declares no reasons: have they moved?", file)
		}
		for _, match := range matches {
			declared[match[1]] = true
			if !explained[match[1]] {
				t.Errorf("operations.md does not explain %s of %s", match[1], file)
			}
		}
	}
	for reason := range explained {
		if !declared[reason] {
			t.Errorf("operations.md explains %s, which does not exist", reason)
		}
	}
}

func TestEveryFieldHasAHeading(t *testing.T) {
	for page, object := range map[string]any{
		"spec/zoscloudbroker.md":     v2beta1.ZosCloudBroker{},
		"spec/operatorcollection.md": v2beta2.OperatorCollection{},
		"spec/suboperatorconfig.md":  v2beta2.SubOperatorConfig{},
		"spec/zosendpoint.md":        v2beta2.ZosEndpoint{},
	} {
		text := read(t, page)
		for _, part := range []string{"Spec", "Status"} {
			field, ok := reflect.TypeOf(object).FieldByName(part)
			if !ok {
				t.Fatalf("%T has no %s", object, part)
			}
			for i := range field.Type.NumField() {
				name, _, _ := strings.Cut(field.Type.Field(i).Tag.Get("json"), ",")
				if !strings.Contains(text, "\n### `"+name+"`\n") {
					t.Errorf("docs/%s has no heading for %s.%s", page, strings.ToLower(part), name)
				}
			}
		}
	}
}

func TestRuntimeFieldsHaveHeadings(t *testing.T) {
	text := read(t, "spec/operatorcollection.md")
	runtime := reflect.TypeFor[v2beta2.RuntimeSpec]()
	for i := range runtime.NumField() {
		name, _, _ := strings.Cut(runtime.Field(i).Tag.Get("json"), ",")
		if !strings.Contains(text, "\n### `runtime."+name+"`\n") {
			t.Errorf("docs/spec/operatorcollection.md has no heading for runtime.%s", name)
		}
	}
}

// The page lists the modules that checks do not run.
func TestModulesThatChecksSkipAreListed(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+\\.\\w+)` \\| (`.*`) \\|$").FindAllStringSubmatch(read(t, "runs.md"), -1) {
		for module := range strings.SplitSeq(row[2], ", ") {
			listed[row[1]+"."+strings.Trim(module, "`")] = true
		}
	}
	skipped := map[string]bool{}
	for _, name := range regexp.MustCompile(`(?m)^    "(\w+\.\w+\.\w+)",`).FindAllStringSubmatch(read(t, "../internal/run/engine/python/zoscb_engine/checkmodules.py"), -1) {
		skipped[name[1]] = true
	}
	if len(skipped) == 0 || !maps.Equal(listed, skipped) {
		t.Errorf("docs/runs.md lists %v, checks skip %v", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(skipped)))
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile(`[^a-z0-9 _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md", "../internal/run/engine/README.md", "../hack/devcluster/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, page := range pages {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			path := filepath.Join(filepath.Dir(page), target)
			if target == "" {
				path = page
			}
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s: link to %s leads nowhere", page, m[1])
			} else if anchor != "" && !hasAnchor(read(t, path), anchor) {
				t.Errorf("%s: %s has no heading #%s", page, path, anchor)
			}
		}
	}
}

func hasAnchor(text, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		slug := notSlug.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// constant is a reason or condition type of the API.
var constant = regexp.MustCompile(`(?m)^\t(?:Reason|Condition)\w+ = "(\w+)"$`)

var (
	promise = regexp.MustCompile(`^- \*\*([A-Z]\d+)\*\* .+ Test: (.+)$`)
	quoted  = regexp.MustCompile(`"[^"]+"`)
	proof   = regexp.MustCompile(`^\[[^]]+\]\((\S+_test\.go)\) ("[^"]+"(?:, "[^"]+")*)\.?$`)
)

// promisesOf are the items below "## Promises", each on one line.
func promisesOf(text string) []string {
	_, text, _ = strings.Cut(text, "\n## Promises\n")
	text, _, _ = strings.Cut(text, "\n## ")
	var items []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\n  ", " ")) {
		if strings.HasPrefix(line, "- ") {
			items = append(items, strings.TrimSpace(line))
		}
	}
	return items
}

func TestEveryPromiseNamesItsTests(t *testing.T) {
	items := promisesOf(read(t, "security.md"))
	if len(items) == 0 {
		t.Fatal("security.md promises nothing")
	}
	seen := map[string]bool{}
	for _, item := range items {
		parts := promise.FindStringSubmatch(item)
		if parts == nil || seen[parts[1]] {
			t.Errorf("security.md: want a number of its own, the promise, and its tests: %s", item)
			continue
		}
		seen[parts[1]] = true
		for _, tests := range strings.Split(parts[2], "; ") {
			named := proof.FindStringSubmatch(tests)
			if named == nil {
				t.Errorf("security.md: %s: want a link to a test file and names in quotes, not %s", parts[1], tests)
				continue
			}
			content := read(t, named[1])
			for _, name := range quoted.FindAllString(named[2], -1) {
				if !strings.Contains(content, name) && !strings.Contains(content, "\nfunc "+strings.Trim(name, `"`)+"(t *testing.T)") {
					t.Errorf("security.md: %s: %s has no test %s", parts[1], named[1], name)
				}
			}
		}
	}
}

// annotation is the declaration of an annotation of ours.
var annotation = regexp.MustCompile(`(?m)^(?:const )?\s*[aA]nnotation\w* *= "((?:[a-z.]*zoscb\.ibm\.com|ansible\.sdk\.operatorframework\.io)/[a-z-]*)"$`)

// inCacheOnly are annotations that no object in the cluster has.
var inCacheOnly = []string{"zoscb.ibm.com/metadata", "zoscb.ibm.com/others"}

func TestEveryAnnotationIsListed(t *testing.T) {
	page := read(t, "spec/annotations.md")
	found := 0
	err := filepath.WalkDir("../internal", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, match := range annotation.FindAllStringSubmatch(read(t, path), -1) {
			found++
			if name := match[1]; !slices.Contains(inCacheOnly, name) && !strings.Contains(page, "`"+name) {
				t.Errorf("docs/spec/annotations.md lacks %s of %s", name, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 20 {
		t.Errorf("only %d annotations were found: has their form changed?", found)
	}
}

func TestEveryOptionOfWatchesIsListed(t *testing.T) {
	page := read(t, "watches.md")
	source := read(t, "../internal/collection/render/watches.go")
	start := strings.Index(source, "type watch struct {")
	if start < 0 {
		t.Fatal("type watch was not found: has it moved?")
	}
	text, _, _ := strings.Cut(source[start:], "\n}\n")
	options := regexp.MustCompile(`json:"(\w+)`).FindAllStringSubmatch(text, -1)
	// What ansible-operator has besides, and the manager does not write.
	options = append(options, []string{"", "role"}, []string{"", "selector"}, []string{"", "watchClusterScopedResources"})
	for _, option := range options {
		if !strings.Contains(page, "`"+option[1]+"`") {
			t.Errorf("docs/watches.md lacks the option %s", option[1])
		}
	}
}
