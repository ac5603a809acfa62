package v2beta2

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// constantsWithPrefix returns the string constants of a source file whose names begin with the prefix, by name, and the
// names of those that have no doc comment.
func constantsWithPrefix(t *testing.T, file, prefix string) (values map[string]string, undocumented []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := spec.Names[0].Name
		values[name] = value
		if doc := spec.Doc.Text(); !strings.HasPrefix(doc, name+" ") {
			undocumented = append(undocumented, name)
		}
		return true
	})
	return values, undocumented
}

// The API server accepts a condition's type and reason only in this form.
func TestConstants(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z][A-Za-z]{2,}$`)
	for _, prefix := range []string{"Reason", "Condition"} {
		t.Run(prefix, func(t *testing.T) {
			values, undocumented := constantsWithPrefix(t, "conditions.go", prefix)
			if len(values) == 0 {
				t.Fatal("no constants found: has the file moved?")
			}
			for name, value := range values {
				if name != prefix+value {
					t.Errorf("%s has the value %q: they should agree", name, value)
				}
				if !form.MatchString(value) {
					t.Errorf("%q is not in CamelCase", value)
				}
			}
			if len(undocumented) > 0 {
				t.Errorf("constants without a doc comment that begins with their name: %v", undocumented)
			}
		})
	}
}
