// Command mutants shows that tests find faults. It puts one fault of its list at a time into a function, runs the tests of the package
// that has the function (of a reconciler also those of internal/controller or internal/operands), and prints whether one of them failed,
// which, and after how many seconds.
//
//	go run ./hack/mutants [-run REGEXP]
//
// It fails if the tests of a package fail without a fault, and if a fault survives, no longer applies or does not compile. Sources are
// not changed: the compiler gets another file for one of them (go test -overlay).
//
// Mutation tools such as gremlins exchange operators everywhere, which takes hours for a module of this size, and cannot leave out a
// check or a write, which are the faults that matter here.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// timeout limits the tests of a package. A fault that makes them wait for longer counts as one that survives.
const timeout = 5 * time.Minute

func main() {
	selected := flag.String("run", "", "regular expression: apply the faults whose name or function matches")
	flag.Parse()
	expression, err := regexp.Compile(*selected)
	if err == nil {
		err = run(".", expression, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run applies the selected mutations to the module in a folder.
func run(root string, selected *regexp.Regexp, out io.Writer) error {
	chosen, width := []mutation{}, 0
	for _, m := range mutations() {
		if selected.MatchString(m.fault) || selected.MatchString(m.function) {
			chosen, width = append(chosen, m), max(width, len(m.fault))
		}
	}
	if len(chosen) == 0 {
		return errors.New("no fault has such a name or function")
	}
	functions, err := readModule(root)
	if err != nil {
		return err
	}
	var failed []string
	sound := map[string]error{} // By package: why its tests fail without a fault.
	for _, m := range chosen {
		r := try(root, functions, m, sound)
		if r.outcome != killed {
			failed = append(failed, m.fault)
		}
		fmt.Fprintf(out, "%-14s %6.1f s  %-*s  %s\n", r.outcome, r.took.Seconds(), width, m.fault, r.detail)
	}
	fmt.Fprintf(out, "\n%d of %d faults were found by the tests of their package\n", len(chosen)-len(failed), len(chosen))
	if len(failed) > 0 {
		return fmt.Errorf("not found: %s", strings.Join(slices.Compact(failed), "; "))
	}
	return nil
}

// try applies a mutation and runs the tests of its package.
func try(root string, functions []function, m mutation, sound map[string]error) result {
	began := time.Now()
	f, content, err := m.apply(functions)
	if err != nil {
		return result{outcome: notApplicable, detail: err.Error()}
	}
	if _, known := sound[f.folder]; !known {
		sound[f.folder] = unmutated(root, f.folder)
		began = time.Now()
	}
	if err := sound[f.folder]; err != nil {
		return result{outcome: notTested, detail: err.Error()}
	}
	r, err := testMutated(root, f, content)
	if err != nil {
		return result{outcome: notTested, detail: err.Error()}
	}
	r.took = time.Since(began)
	return r
}
