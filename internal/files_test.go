package internal_test

import (
	"fmt"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// A reader holds one package, one file and one type in mind at a time.
const (
	maxPackageLines = 2500
	maxPackageFiles = 16
	maxFileLines    = 450
	maxMethods      = 20
)

// large are packages with one idea that needs more lines or files.
var large = []string{"internal/collection/render", "internal/collection/model"}

func TestPackagesFilesAndTypesStaySmall(t *testing.T) {
	found := map[string]string{}
	for name, p := range loadPackages(t) {
		files, total := 0, 0
		for _, path := range p.GoFiles {
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Count(string(content), "\n")
			files, total = files+1, total+lines
			if lines > maxFileLines {
				found[name+"/"+filepath.Base(path)] = fmt.Sprintf("it has %d lines, more than %d", lines, maxFileLines)
			}
		}
		if total > maxPackageLines || files > maxPackageFiles {
			found[name] = fmt.Sprintf("it has %d lines in %d files, more than %d in %d", total, files, maxPackageLines, maxPackageFiles)
		}
		for _, of := range p.Types.Scope().Names() {
			if named, isNamed := p.Types.Scope().Lookup(of).Type().(*types.Named); isNamed && named.NumMethods() > maxMethods {
				found[name+"."+of] = fmt.Sprintf("it has %d methods, more than %d", named.NumMethods(), maxMethods)
			}
		}
	}
	compare(t, found, large)
}

// Files of a package can be read in an order in which each one uses only what was read before.
func TestFilesOfAPackageDoNotUseEachOtherInCircles(t *testing.T) {
	found := map[string]string{}
	for name, p := range loadPackages(t) {
		uses := usesBetweenFiles(p)
		for _, circle := range circles(uses) {
			for _, from := range circle {
				for _, to := range circle {
					if names := slices.Sorted(maps.Keys(uses[from][to])); len(names) > 0 {
						found[name] += fmt.Sprintf("\n  %s uses %s of %s", from, strings.Join(names, " "), to)
					}
				}
			}
		}
	}
	compare(t, found, nil)
}

// compare reports what was found and is not excepted, and exceptions that are not needed.
func compare(t *testing.T, found map[string]string, excepted []string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !slices.Contains(excepted, name) {
			t.Errorf("%s: %s", name, found[name])
		}
	}
	for _, name := range excepted {
		if found[name] == "" {
			t.Errorf("%s needs no exception any more", name)
		}
	}
}

// usesBetweenFiles returns, for each file, the names that it uses from each other file of the package.
func usesBetweenFiles(p *packages.Package) map[string]map[string]map[string]bool {
	uses := map[string]map[string]map[string]bool{}
	fileOf := func(o types.Object) string { return filepath.Base(p.Fset.Position(o.Pos()).Filename) }
	for _, file := range p.Syntax {
		name := filepath.Base(p.Fset.Position(file.Pos()).Filename)
		uses[name] = map[string]map[string]bool{}
	}
	for id, object := range p.TypesInfo.Uses {
		if _, isPackage := object.(*types.PkgName); isPackage || object.Pkg() != p.Types || !object.Pos().IsValid() {
			continue
		}
		from, to := filepath.Base(p.Fset.Position(id.Pos()).Filename), fileOf(object)
		if from == to {
			continue
		}
		if uses[from][to] == nil {
			uses[from][to] = map[string]bool{}
		}
		uses[from][to][object.Name()] = true
	}
	return uses
}

// circles returns the files, sorted, of each group in which each one reaches each other.
func circles(uses map[string]map[string]map[string]bool) [][]string {
	reached := map[string]map[string]bool{}
	for from := range uses {
		seen, todo := map[string]bool{}, []string{from}
		for len(todo) > 0 {
			next := todo[0]
			todo = todo[1:]
			for to := range uses[next] {
				if !seen[to] {
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
		reached[from] = seen
	}
	var found [][]string
	done := map[string]bool{}
	for _, from := range slices.Sorted(maps.Keys(uses)) {
		if done[from] || !reached[from][from] {
			continue
		}
		var circle []string
		for _, to := range slices.Sorted(maps.Keys(reached[from])) {
			if reached[to][from] {
				circle, done[to] = append(circle, to), true
			}
		}
		found = append(found, circle)
	}
	return found
}

// loadPackages returns the packages of the product by name, tests excluded, with types. The kinds of the API refer to each other.
func loadPackages(t *testing.T) map[string]*packages.Package {
	t.Helper()
	mode := packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports
	loaded, err := packages.Load(&packages.Config{Mode: mode}, module+"cmd/...", module+"internal/...")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*packages.Package{}
	for _, p := range loaded {
		for _, failure := range p.Errors {
			t.Fatalf("%s: %v", p.PkgPath, failure)
		}
		byName[strings.TrimPrefix(p.PkgPath, module)] = p
	}
	return byName
}
