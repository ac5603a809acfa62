package main

import (
	"strings"
	"testing"
)

// A mutation that does not apply any more is found before `make test-full` runs it.
func TestAllMutationsApply(t *testing.T) {
	functions, err := readModule("../..")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range mutations() {
		if _, content, err := m.apply(functions); err != nil || !strings.Contains(string(content), m.new) {
			t.Errorf("%s: %v", m.fault, err)
		}
		if names[m.fault] {
			t.Errorf("%s: the name is that of two", m.fault)
		}
		names[m.fault] = true
	}
}

func TestApply(t *testing.T) {
	const one, two = "package a\n\nfunc (t *T[K]) Do() { f(); g() }\n", "package b\n\nfunc Do() { f(); f() }\n"
	functions := []function{
		{file: "a.go", pkg: "a", name: "(*T).Do", begin: strings.Index(one, "{"), end: len(one) - 1, content: []byte(one)},
		{file: "b.go", pkg: "b", name: "Do", begin: strings.Index(two, "{"), end: len(two) - 1, content: []byte(two)},
		{file: "c.go", pkg: "c", name: "Do", content: []byte(two)},
	}
	for name, test := range map[string]struct {
		function, old, want string
	}{
		"a method":                   {"(*T).Do", "f()", "package a\n\nfunc (t *T[K]) Do() { x; g() }\n"},
		"a method of a package":      {"a.(*T).Do", "g()", "package a\n\nfunc (t *T[K]) Do() { f(); x }\n"},
		"text outside":               {"(*T).Do", "package", `a.go: (*T).Do has 0 times "package"`},
		"text that occurs twice":     {"b.Do", "f()", `b.go: b.Do has 2 times "f()"`},
		"functions of several":       {"Do", "f()", "2 functions are named Do: b.go c.go"},
		"a function that went":       {"Undo", "f()", "0 functions are named Undo: "},
		"a function of another kind": {"T.Do", "f()", "0 functions are named T.Do: "},
	} {
		_, content, err := mutation{name, test.function, test.old, "x"}.apply(functions)
		if err != nil {
			content = []byte(err.Error())
		}
		if string(content) != test.want {
			t.Errorf("%s: got %s, want %s", name, content, test.want)
		}
	}
}

func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		lines string
		want  result
	}{
		"all pass": {`{"Action":"run","Test":"TestA"}
{"Action":"pass","Test":"TestA"}
{"Action":"pass"}`, result{outcome: survived}},
		"a subtest fails": {`{"Action":"run","Test":"TestA/b"}
{"Action":"fail","Test":"TestA/b"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`, result{outcome: killed, detail: "TestA/b"}},
		"a spec fails": {`{"Action":"output","Test":"TestSpecs","Output":"  [FAIL] The gate [It] runs once\n"}
{"Action":"fail","Test":"TestSpecs"}`, result{outcome: killed, detail: "TestSpecs: The gate [It] runs once"}},
		"the process ends": {`{"Action":"run","Test":"TestA"}
{"Action":"fail"}`, result{outcome: killed, detail: "TestA (the process ended)"}},
		"it does not compile": {`{"Action":"build-output","Output":"a.go:1:2: undefined: b\n"}
{"Action":"build-fail"}
{"Action":"fail","FailedBuild":"a"}`, result{outcome: notCompiled, detail: "a.go:1:2: undefined: b"}},
		"there is no API server": {`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"    rig.go:1: start the API server: it is not ready\n"}
{"Action":"fail","Test":"TestA"}`, result{outcome: notTested, detail: "rig.go:1: start the API server: it is not ready"}},
		"it hangs": {`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"panic: test timed out after 5m0s\n"}
{"Action":"fail","Test":"TestA"}`, result{outcome: timedOut, detail: "TestA"}},
	} {
		if got, err := read(strings.NewReader(test.lines)); err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}
