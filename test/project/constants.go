package project

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"
)

// ConstantsOfType returns the values of all constants of a string type in a folder of the repository, such as internal/source/fetch.
func ConstantsOfType(t *testing.T, folder, typeName string) []string {
	t.Helper()
	dir, err := Dir()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no sources found", err)
	}
	var values []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			ident, named := spec.Type.(*ast.Ident)
			literal, isLiteral := spec.Values[0].(*ast.BasicLit)
			if named && isLiteral && ident.Name == typeName {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				values = append(values, value)
			}
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("no constants of type %s found in %s", typeName, folder)
	}
	return values
}
