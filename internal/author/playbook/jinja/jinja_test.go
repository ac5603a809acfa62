package jinja

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// notes are the references of a Text: a name that is needed as it is, one that is only asked for with a question mark,
// any other in brackets.
func notes(w Usage) string {
	var out []string
	for _, ref := range w.References {
		switch {
		case ref.Needed && ref.Tested:
			out = append(out, "needed and tested: "+ref.Name)
		case ref.Needed:
			out = append(out, ref.Name)
		case ref.Tested:
			out = append(out, ref.Name+"?")
		default:
			out = append(out, "("+ref.Name+")")
		}
	}
	return strings.Join(out, " ")
}

func TestReadTemplate(t *testing.T) {
	tests := map[string]string{
		"":                                    "",
		"plain { text } %} }}":                "",
		"{{ a }} and {{b}}{{- c -}}":          "a b c",
		"{{ a.b.c }}{{ d['e f'].g }}":         "a d",
		"{{ a[b] }}":                          "a b",
		"{{ a['b'] }}":                        "a b?",
		"{{ a | upper | d.e.f(b) }}":          "a b",
		"{{ a | default(b) }}":                "(a) (b)",
		"{{ a.b['c d'] | d('') }}":            "(a)",
		"{{ (a.b ~ c) | default('x y') }}":    "(a) (c)",
		"{{ a | default }} {{ a }}":           "(a) a",
		"{{ a | mandatory }}":                 "a",
		"{{ a is defined }}":                  "a?",
		"{{ a.b is not defined and c }}":      "a? c",
		"{{ a in b and not c }}":              "a b c",
		"{{ a if b else c }}":                 "(a) (b) (c)",
		"{{ f(a, key=b) }}":                   "a b",
		"{{ lookup('file', a) }}":             "file? a",
		"{{ {'a b': c, d: {'x y': e}} }}":     "c d e",
		"{{ [a, 1e5, 0x1f, 1.5] }}":           "a",
		"{{ a == 'b' }}":                      "a b?",
		"{{ a != \"it's }}\" and b >= c }}":   "a b c",
		"{{ 'a\\' b' ~ c }}":                  "c",
		"{{ a":                                "a",
		"{{ 'a":                               "a?",
		"{# {{ a }} #}{{ b }}":                "b",
		"{% raw %}{{ a }}{% endraw %}{{ b }}": "(b)",
		"{% for i, j in a if b %}{{ i }}{{ c }}{% endfor %}":      "(a) (b) (c)",
		"{% set x = a %}{{ x }}":                                  "(a)",
		"{% set x %}{{ a }}{% endset %}":                          "(a)",
		"{% macro m(x, y=1) %}{{ x }}{% endmacro %}{{ m(a) }}":    "(a)",
		"{% with x = a, y = b %}{{ x }}{% endwith %}":             "(a) (b)",
		"{%- if a is defined and b == 1 -%}{{ c }}{%+ endif %}":   "a? (b) (c)",
		"{% include 'banner.j2' %}{% import 'x y' as z %}{{ z }}": "",
		"{% call(x) m(a) %}{{ x }}{% endcall %}":                  "(a)",
		"{% filter upper %}{{ a }}{% endfilter %}":                "(a)",
		"{% ": "",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			if diff := cmp.Diff(want, notes(ReadTemplate(text))); diff != "" {
				t.Errorf("references differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadExpression(t *testing.T) {
	for text, want := range map[string]string{
		"a and b.c == 'd e'":              "a b",
		"a is defined and a | length > 0": "a? a",
		"result.rc not in [0, 4]":         "result",
		"a is version('2.0', '>=')":       "a?",
		"not a":                           "a",
		"(a | default(false)) | bool":     "(a)",
		"a is search b":                   "a? b",
		"a } b) ] c":                      "a b c",
	} {
		if got := notes(ReadExpression(text)); got != want {
			t.Errorf("ReadExpression(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestTemplatesThatUseAnything(t *testing.T) {
	for text, want := range map[string]bool{
		"{{ a }}":                  false,
		"{{ vars['a'] }}":          false,
		"{{ vars.a }}":             false,
		"{{ vars[a] }}":            true,
		"{{ vars | to_json }}":     true,
		"{{ hostvars[x].a }}":      false,
		"{{ hostvars['x']['a'] }}": false,
		"{{ hostvars['x'] }}":      true,
		"{{ hostvars.x }}":         true,
		"{{ hostvars.x.a }}":       false,
		"{{ _suboperator_zoscb_ibm_com_thing_spec.a }}":     false,
		"{{ _suboperator_zoscb_ibm_com_thing_spec }}":       true,
		"{{ lookup('template', 'a.j2') }}":                  false,
		"{{ lookup('ansible.builtin.template', 'a.jcl') }}": true,
		"{{ lookup('template', a) }}":                       true,
		"{{ lookup('vars', 'a') }}":                         false,
		"{{ lookup('vars', 'a' ~ b) }}":                     false,
		"{{ query('vars', a) }}":                            true,
		"{{ lookup(a, b) }}":                                true,
		"{{ lookup('file', a) }}":                           false,
	} {
		if got := ReadTemplate(text).Anything; got != want {
			t.Errorf("ReadTemplate(%q).Anything = %v, want %v", text, got, want)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"{{ a | default(b) }}", "{% for a in b %}{{ c['d'] }}{% endfor %}", "{{ (a.b ~ c) | d({'x': [1]}) }}", "{# x #}{% raw %}",
		"'{{ a }}' == 'x'", `"{{ lookup('env', "X") }}-y" in z`, "{{ a", "'it''s {{ x }}'", "{{{{ }}}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range []Usage{ReadTemplate(text), ReadExpression(text)} {
			for _, ref := range w.References {
				if !Identifier.MatchString(ref.Name) || !strings.Contains(text, ref.Name) {
					t.Errorf("%q is no name in the text", ref.Name)
				}
			}
			for _, word := range w.Words {
				if !strings.Contains(text, word) {
					t.Errorf("%q is no word of the text", word)
				}
			}
		}
		c := BracedCondition{Keyword: "when", Text: text}
		line := c.Corrected(func(string) bool { return true })
		if strings.Contains(line, "\n") {
			t.Errorf("corrected line %q has more than one line", line)
		}
	})
}
