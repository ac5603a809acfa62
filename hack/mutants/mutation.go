package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mutation is a fault in a function.
type mutation struct {
	// fault says in words what is wrong.
	fault string
	// function is named as in stack traces, with or without the package: "Consent", "(*Handler).receive", "podlock.Lock.Take". One function
	// of the module has this name, wherever it is.
	function string
	// old occurs in the function once, and is replaced by new.
	old, new string
}

// function is one of the module.
type function struct {
	folder, file string // file is relative to the module, folder that of the package
	pkg, name    string
	begin, end   int // in the file
	content      []byte
}

// readModule returns the functions of a module that are compiled here, without those of tests and of modules inside it.
func readModule(root string) ([]function, error) {
	var functions []function
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if path != root && (err == nil || strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		if isBuilt, err := build.Default.MatchFile(filepath.Dir(path), name); err != nil || !isBuilt {
			return err
		}
		found, err := readFile(root, path)
		functions = append(functions, found...)
		return err
	})
	return functions, err
}

func readFile(root, path string) ([]function, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, content, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	relative, err := filepath.Rel(root, path)
	var functions []function
	for _, declaration := range file.Decls {
		if d, ok := declaration.(*ast.FuncDecl); ok && d.Body != nil {
			functions = append(functions, function{
				folder: filepath.Dir(relative), file: relative, pkg: file.Name.Name, name: nameOf(d),
				begin: set.Position(d.Body.Pos()).Offset, end: set.Position(d.Body.End()).Offset, content: content,
			})
		}
	}
	return functions, err
}

// nameOf returns the name of a function, with its receiver as in stack traces.
func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver, format := d.Recv.List[0].Type, "%s.%s"
	if pointer, ok := receiver.(*ast.StarExpr); ok {
		receiver, format = pointer.X, "(*%s).%s"
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	return fmt.Sprintf(format, receiver.(*ast.Ident).Name, d.Name.Name)
}

// apply returns the function, and its file with the fault.
func (m mutation) apply(functions []function) (function, []byte, error) {
	var found []function
	for _, f := range functions {
		if m.function == f.name || m.function == f.pkg+"."+f.name {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		var files []string
		for _, f := range found {
			files = append(files, f.file)
		}
		return function{}, nil, fmt.Errorf("%d functions are named %s: %s", len(found), m.function, strings.Join(files, " "))
	}
	f := found[0]
	body := string(f.content[f.begin:f.end])
	if n := strings.Count(body, m.old); n != 1 {
		return function{}, nil, fmt.Errorf("%s: %s has %d times %q", f.file, m.function, n, m.old)
	}
	body = strings.Replace(body, m.old, m.new, 1)
	return f, []byte(string(f.content[:f.begin]) + body + string(f.content[f.end:])), nil
}
