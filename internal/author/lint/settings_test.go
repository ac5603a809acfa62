package lint_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

func readSettings(t *testing.T, content string) (lint.Settings, findings.Problems) {
	t.Helper()
	settings, problems, err := lint.ReadSettings(fstest.MapFS{lint.SettingsFile: {Data: []byte(content)}})
	if err != nil {
		t.Fatal(err)
	}
	return settings, problems
}

func TestSettingsHide(t *testing.T) {
	all := findings.Problems{
		{File: "galaxy.yml", Rule: "required"},
		{File: "operator-config.yml", Rule: "match-domain"},
		{File: "operator-config.yml", Rule: "kind-name"},
		{File: "playbooks/old/one.yml", Rule: "hosts-all"},
		{File: "playbooks/new.yml", Rule: "hosts-all"},
	}
	for _, tt := range []struct {
		name, settings string
		shown          []int
	}{
		{"no settings", "", []int{0, 1, 2, 3, 4}},
		{"a null", "~\n", []int{0, 1, 2, 3, 4}},
		{"everything left empty", "exclude_paths:\nskip_list:\nuse_default_rules:\nenable_list:\n", []int{0, 1, 2, 3, 4}},
		{"a rule", "skip_list:\n  - match-domain\n", []int{0, 2, 3, 4}},
		{"a rule that is not in a list", "skip_list: hosts-all\n", []int{0, 1, 2}},
		{"all but some rules", "use_default_rules: false\nenable_list: [hosts-all, match-domain]\n", []int{1, 3, 4}},
		{"all rules", "use_default_rules: false\n", nil},
		{"enabled, and among the default rules anyway", "use_default_rules: true\nenable_list: [hosts-all]\n", []int{0, 1, 2, 3, 4}},
		{"skipping wins", "use_default_rules: false\nenable_list: [hosts-all]\nskip_list: [hosts-all]\n", nil},
		{"a file", "exclude_paths: [galaxy.yml]\n", []int{1, 2, 3, 4}},
		{"a folder", "exclude_paths: [playbooks/old]\n", []int{0, 1, 2, 4}},
		{"a folder with a slash", "exclude_paths: [./playbooks/]\n", []int{0, 1, 2}},
		{"a star does not cross folders", "exclude_paths: ['playbooks/*.yml']\n", []int{0, 1, 2, 3}},
		{"two stars do", "exclude_paths: ['playbooks/**/*.yml']\n", []int{0, 1, 2}},
		{"everything", "exclude_paths: ['**']\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			settings, problems := readSettings(t, tt.settings)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			var want findings.Problems
			for _, i := range tt.shown {
				want = append(want, all[i])
			}
			shown, hidden := settings.Apply(all)
			if diff := cmp.Diff(want, shown); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
			if len(shown)+len(hidden) != len(all) {
				t.Errorf("%d are hidden and %d shown, of %d", len(hidden), len(shown), len(all))
			}
		})
	}
}

func TestSettingsProblems(t *testing.T) {
	for _, tt := range []struct {
		name, settings string
		want           []string
	}{
		{"unknown key", "skip: []\n", []string{`oc-lint .oc-lint:1:7: skip: warning: unknown key, ignored`}},
		{"unknown rule", "skip_list:\n  - kind-name\n  - kindname\n", []string{`oc-lint .oc-lint:3:5: skip_list: warning: there is no rule "kindname"`}},
		{"key given twice", "skip_list: []\nskip_list: []\n", []string{`oc-lint .oc-lint:2:1: warning: key "skip_list" is given twice, first in line 1; keep one`}},
		{"no mapping", "- kind-name\n", []string{"oc-lint .oc-lint:1:1: warning: must be a mapping of keys to values, not a list"}},
		{"no YAML", "skip_list: [\n", []string{"oc-lint .oc-lint:1:1: warning: cannot be read as YAML: did not find expected node content"}},
		{"no boolean", "use_default_rules: maybe\n", []string{"oc-lint .oc-lint:1:20: use_default_rules: warning: must be true or false, not \"maybe\""}},
		{"no list", "enable_list: {kind-name: true}\n", []string{"oc-lint .oc-lint:1:14: enable_list: warning: must be a list, not a mapping"}},
		{"no text", "exclude_paths: [[a]]\n", []string{"oc-lint .oc-lint:1:17: exclude_paths: warning: must be a text, not a list"}},
		{"no pattern", "exclude_paths: ['a[']\n", []string{`oc-lint .oc-lint:1:17: exclude_paths: warning: "a[" is not a pattern for paths: it may hold *, **, ? and [], no braces, and 200 characters`}},
		{"braces", "exclude_paths: ['{a,b}']\n", []string{`oc-lint .oc-lint:1:17: exclude_paths: warning: "{a,b}" is not a pattern for paths: it may hold *, **, ? and [], no braces, and 200 characters`}},
		{"an alias", "skip_list: &a [kind-name]\nenable_list: *a\n", []string{}},
		{"too large", strings.Repeat("# comment\n", 10_000), []string{"oc-lint .oc-lint: warning: is larger than 64 KiB, and ignored"}},
		{"too many", "skip_list:\n" + strings.Repeat("- yaml\n", 1001), []string{"oc-lint .oc-lint:1002:3: skip_list: warning: there are more than 1000 items; this one and all that follow are ignored"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := readSettings(t, tt.settings)
			if diff := cmp.Diff(tt.want, lines(problems)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// The names that IBM's editor extension has for its rules are names of ours, or at least known.
func TestSettingsKnowTheRulesOfTheExtension(t *testing.T) {
	names := "[missing-galaxy, match-domain, match-name, match-version, ansible-config, playbook-path, hosts-all, missing-playbook, finalizer-path, missing-finalizer]"
	if _, problems := readSettings(t, "skip_list: "+names+"\nenable_list: "+names+"\n"); len(problems) > 0 {
		t.Error(problems)
	}
}

func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"exclude_paths:\n  - '**'\nuse_default_rules: true\nskip_list:\n  - match-domain\nenable_list:\n  - hosts-all\n",
		"---\n# nothing\n", "skip_list: &a [*a]\n", "? {a: b}\n: c\n", "exclude_paths: ['{a,b{c,d}}', '[!a-z]**/', '\\']\n", "use_default_rules: !!binary x\n",
	} {
		f.Add([]byte(seed))
	}
	found := findings.Problems{{File: "playbooks/a/b.yml", Rule: "hosts-all"}, {File: "operator-config.yml", Rule: "kind-name"}, {Rule: "archive"}}
	f.Fuzz(func(t *testing.T, content []byte) {
		settings, problems, err := lint.ReadSettings(fstest.MapFS{lint.SettingsFile: {Data: content}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if p.File != lint.SettingsFile || p.Rule != "oc-lint" || p.Message == "" || p.Line < 0 {
				t.Errorf("problem %#v", p)
			}
		}
		shown, hidden := settings.Apply(found)
		if len(shown)+len(hidden) != len(found) {
			t.Errorf("%d shown and %d hidden, of %d", len(shown), len(hidden), len(found))
		}
	})
}
