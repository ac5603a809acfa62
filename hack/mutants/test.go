package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// outcome is what became of a fault.
type outcome string

const (
	killed        outcome = "killed"
	survived      outcome = "SURVIVED"
	timedOut      outcome = "TIMED OUT"
	notCompiled   outcome = "NOT COMPILED"
	notApplicable outcome = "NOT APPLICABLE"
	notTested     outcome = "NOT TESTED"
)

// result is the outcome, with the test that failed, or the cause of another outcome.
type result struct {
	outcome outcome
	detail  string
	took    time.Duration
}

// unmutated returns why the tests of a package fail without a fault.
func unmutated(root, folder string) error {
	r, err := test(root, folder)
	if err == nil && r.outcome != survived {
		err = fmt.Errorf("tests of %s without a fault: %s %s", folder, r.outcome, r.detail)
	}
	return err
}

// testMutated runs the tests of a function's package with other content of its file.
func testMutated(root string, f function, content []byte) (result, error) {
	folder, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	mutated, overlay := filepath.Join(folder, filepath.Base(f.file)), filepath.Join(folder, "overlay.json")
	original, err := filepath.Abs(filepath.Join(root, f.file))
	if err != nil {
		return result{}, err
	}
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	if err != nil {
		return result{}, err
	}
	if err := errors.Join(os.WriteFile(mutated, content, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return result{}, err
	}
	return test(root, f.folder, "-overlay", overlay)
}

// reconcilers have their tests in one package of each group, with one API server, beside those of each of their packages.
var reconcilers = []string{"internal/controller", "internal/operands"}

// test runs the tests of a package until one fails. Tests that need an API server fail where there is none.
func test(root, folder string, flags ...string) (result, error) {
	arguments := append([]string{"test", "-json", "-vet=off", "-failfast", "-timeout", timeout.String()}, flags...)
	arguments = append(arguments, "./"+filepath.ToSlash(folder))
	for _, group := range reconcilers {
		if strings.HasPrefix(filepath.ToSlash(folder), group+"/") {
			arguments = append(arguments, "./"+group)
		}
	}
	ginkgo, err := usesGinkgo(filepath.Join(root, folder))
	if err != nil {
		return result{}, err
	}
	if ginkgo {
		arguments = append(arguments, "-ginkgo.fail-fast", "-ginkgo.no-color")
	}
	command := exec.Command("go", arguments...)
	command.Dir, command.Env = root, append(os.Environ(), "CI=true")
	output, err := command.Output()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return result{}, err
	}
	r, readErr := read(bytes.NewReader(output))
	if readErr == nil && err != nil && r.outcome == survived {
		readErr = fmt.Errorf("go test: %w: %s", err, failed.Stderr)
	}
	return r, readErr
}

func usesGinkgo(folder string) (bool, error) {
	tests, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, test := range tests {
		file, err := parser.ParseFile(token.NewFileSet(), test, nil, parser.ImportsOnly)
		if err != nil {
			return false, err
		}
		for _, imported := range file.Imports {
			if imported.Path.Value == `"github.com/onsi/ginkgo/v2"` {
				return true, nil
			}
		}
	}
	return false, err
}

// event is a line of go test -json.
type event struct {
	Action, Test, Output, FailedBuild string
}

// read returns the result that go test -json describes.
func read(output io.Reader) (result, error) {
	r, spec, started := result{outcome: survived}, "", ""
	var compiler strings.Builder
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 10<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return r, fmt.Errorf("go test printed %q: %w", lines.Text(), err)
		}
		_, ginkgoSpec, isSpec := strings.Cut(e.Output, "[FAIL] ")
		switch {
		case isSpec && spec == "":
			spec = ": " + strings.TrimSpace(ginkgoSpec)
		case strings.Contains(e.Output, "start the API server: "):
			return result{outcome: notTested, detail: strings.TrimSpace(e.Output)}, nil
		case strings.Contains(e.Output, "panic: test timed out after"):
			r.outcome = timedOut
		case e.Action == "build-output":
			compiler.WriteString(e.Output)
		case e.FailedBuild != "":
			return result{outcome: notCompiled, detail: strings.Join(strings.Fields(compiler.String()), " ")}, nil
		case e.Action == "run":
			started = e.Test
		case e.Action == "fail" && r.outcome == survived:
			r = result{outcome: killed, detail: e.Test}
			if e.Test == "" {
				r.detail = started + " (the process ended)"
			}
		}
	}
	if r.outcome == timedOut {
		r.detail = started
	}
	r.detail += spec
	return r, lines.Err()
}
