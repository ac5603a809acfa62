package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func folder(files map[string]string) fstest.MapFS {
	out := fstest.MapFS{}
	for name, content := range files {
		out[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return out
}

var reports = map[string]string{
	"parts.tsv": "lint 0 93\nunit-2.19 0 21\nnode 1 700\n",
	"unit-2.19.test.json": `{"Action":"run","Package":"example.com/a/b","Test":"TestX"}
{"Action":"pass","Package":"example.com/a/b","Test":"TestX","Elapsed":1.5}
{"Action":"pass","Package":"example.com/a/b","Elapsed":2}
`,
	"node.ginkgo.json": `[{"SpecReports":[
{"ContainerHierarchyTexts":["A story"],"LeafNodeText":"ends well","LeafNodeType":"It","State":"passed","RunTime":61000000000},
{"ContainerHierarchyTexts":["A story"],"LeafNodeText":"is of another part","LeafNodeType":"It","State":"skipped"},
{"LeafNodeType":"BeforeSuite","State":"passed","RunTime":9000000000}]}]`,
}

func TestTable(t *testing.T) {
	var out strings.Builder
	if err := run(folder(reports), &out, true); err != nil {
		t.Fatal(err)
	}
	const want = `part       result  seconds  specs
lint       passed  93       
unit-2.19  passed  21       1
node       FAILED  700      1

the 10 slowest specs
   61.0 s  node         A story ends well
    1.5 s  unit-2.19    b.TestX
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestFailuresComeLastAndEachMessageOnce(t *testing.T) {
	var out strings.Builder
	failed := func(name, message string) string {
		return `{"LeafNodeText":"` + name + `","LeafNodeType":"It","State":"failed","Failure":{"Message":"` + message + `","Location":{"FileName":"x_test.go","LineNumber":7}}}`
	}
	err := run(folder(map[string]string{
		"parts.tsv": "",
		"api.ginkgo.json": `[{"SpecReports":[` + strings.Join([]string{
			failed("a", "refused"), failed("b", "refused"), failed("c", "refused"), failed("d", "refused"), failed("e", "refused"), failed("f", "refused"),
			failed("g", `the cause\nand more`),
			`{"LeafNodeText":"h","LeafNodeType":"It","State":"skipped","Failure":{"Message":"` + dependent + `"}}`,
			`{"LeafNodeType":"BeforeSuite","State":"failed","Failure":{"Message":"no disk","Location":{"FileName":"x_test.go","LineNumber":7}}}`,
		}, ",") + `]}]`,
		"unit.test.json": `{"Action":"output","Package":"p/q","Test":"TestX","Output":"    x_test.go:3: got 1\n"}
{"Action":"fail","Package":"p/q","Test":"TestX"}
{"Action":"output","Package":"p/q","Output":"FAIL\n"}
{"Action":"fail","Package":"p/q"}
{"Action":"output","Package":"p/r","Output":"r.go:1: does not compile\n"}
{"Action":"fail","Package":"p/r"}
`,
	}), &out, true)
	if err != nil {
		t.Error(err)
	}
	_, got, _ := strings.Cut(out.String(), "\nFAILED")
	const want = `  api: a
        api: b
        api: c
        api: d
        api: e
        and 1 more
  refused
  x_test.go:7

FAILED  api: BeforeSuite
  no disk
  x_test.go:7

FAILED  unit: r
  r.go:1: does not compile

FAILED  api: g
  the cause
  and more
  x_test.go:7

FAILED  unit: q.TestX
  x_test.go:3: got 1
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestSkipsFailInCI(t *testing.T) {
	for name, report := range map[string]map[string]string{
		"a test": {"unit.test.json": `{"Action":"output","Package":"p/q","Test":"TestX","Output":"    x_test.go:3: there is no gpg\n"}
{"Action":"output","Package":"p/q","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}
{"Action":"skip","Package":"p/q","Test":"TestX"}
`},
		"a spec": {"node.ginkgo.json": `[{"SpecReports":[{"LeafNodeText":"TestX","LeafNodeType":"It","State":"skipped","Failure":{"Message":"there is no gpg"}}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			report["parts.tsv"] = ""
			var out strings.Builder
			if err := run(folder(report), &out, false); err != nil || !strings.Contains(out.String(), "there is no gpg") {
				t.Errorf("%v: %s", err, out.String())
			}
			if err := run(folder(report), &out, true); err == nil || !strings.Contains(err.Error(), "1 specs were skipped") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestUnreadableReports(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no parts":       {},
		"a broken line":  {"parts.tsv": "lint\n"},
		"a broken spec":  {"parts.tsv": "", "node.ginkgo.json": "["},
		"a broken event": {"parts.tsv": "", "unit.test.json": "pass"},
	} {
		if err := run(folder(files), &strings.Builder{}, false); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
