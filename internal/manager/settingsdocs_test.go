package manager

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite the table of docs/settings.md")

// pages tell more about a flag, or about all that begin with a word.
var pages = map[string]string{
	"administrators-only-uploads": "[uploads](fetching.md#uploads)",
	"allow-exec-uploads":          "[uploads into the pod](fetching.md#uploads-into-the-managers-pod)",
	"allow-local-addresses":       "[addresses](fetching.md#what-the-manager-does-not-connect-to)",
	"allowed-source-prefixes":     "[servers](fetching.md#only-from-these-servers)",
	"archive-retention":           "[backup](backup.md#archives-that-nothing-uses)",
	"artifact-http-bind-address":  "[certificate](install.md#the-managers-certificate)",
	"artifact-url":                "[certificate](install.md#the-managers-certificate)",
	"catalog-":                    "[OpenShift](openshift.md)",
	"create-operator-groups":      "[OperatorGroups](openshift.md#operatorgroups), [security](security.md#what-remains)",
	"endpoint-probe-interval":     "[endpoints](endpoints.md)",
	"forbidden-networks":          "[addresses](fetching.md#what-the-manager-does-not-connect-to)",
	"galaxy-url":                  "[dependencies](dependencies.md)",
	"max-":                        "[budgets](budgets.md)",
	"memory-limit":                "[budgets](budgets.md)",
	"metrics-":                    "[metrics](operations.md#read-metrics)",
	"namespaces":                  "[permissions](permissions.md#limit-the-manager-to-some-namespaces)",
	"pip-index-url":               "[dependencies](dependencies.md)",
	"require-scoped-grants":       "[grants](permissions.md#grants-for-all-collections)",
	"reserved-domains":            "[sharing](sharing.md#reserve-domains)",
	"runtime-defaults":            "[your site](site.md#for-all-collections)",
	"serving-":                    "[certificate](install.md#the-managers-certificate)",
	"version-":                    "[upgrades](upgrades.md#versions-end)",
}

func pageOf(name string) string {
	if page, ok := pages[name]; ok {
		return page
	}
	for prefix, page := range pages {
		if strings.HasSuffix(prefix, "-") && strings.HasPrefix(name, prefix) {
			return page
		}
	}
	return ""
}

// table has all flags, first those that the ConfigMap may set.
func table(t *testing.T) string {
	for _, variable := range []string{"POD_NAMESPACE", "POD_NAME", "GALAXY_URL", "PIP_INDEX_URL"} {
		t.Setenv(variable, "")
	}
	var s options
	var ours, ofPod strings.Builder
	s.newFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden || flag.Deprecated != "" {
			return
		}
		to, value := &ours, "none"
		if slices.Contains(flagsOfPod, flag.Name) {
			to = &ofPod
		}
		if flag.DefValue != "" && flag.DefValue != "[]" {
			value = "`" + flag.DefValue + "`"
		}
		_, usage := pflag.UnquoteUsage(flag)
		meaning := strings.ReplaceAll(strings.Join(strings.Fields(usage), " "), "|", `\|`)
		if page := pageOf(flag.Name); page != "" {
			meaning += ". See " + page
		}
		fmt.Fprintf(to, "| `%s` | %s | %s |\n", flag.Name, value, meaning)
	})
	const head = "| Key | Default | Meaning |\n|---|---|---|\n"
	return head + ours.String() + "\nThese are arguments of the manager's container, and cannot be keys, because the pod depends on them:\n\n" +
		strings.Replace(head, "Key", "Flag", 1) + ofPod.String()
}

func TestDocsHaveAllSettings(t *testing.T) {
	const path, begin, end = "../../docs/settings.md", "<!-- The flags of the manager: go test ./internal/manager -update -->\n\n", "\n<!-- end -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, isThere := strings.Cut(string(page), begin)
	_, after, isClosed := strings.Cut(rest, end)
	if !isThere || !isClosed {
		t.Fatal("docs/settings.md has no place for the table")
	}
	want := before + begin + table(t) + end + after
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatal("docs/settings.md does not have the flags of the manager: run go test ./internal/manager -update")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
