// Command build makes the archive of a collection's folder, as ansible-galaxy would, and prints the archive's digest
// in the form that spec.digest of an OperatorCollection takes.
//
//	go run ./test/collections/build DIR OUT
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"

	"github.com/collection-operator/collection-operator/internal/collection"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: build DIR OUT")
		os.Exit(2)
	}
	if err := build(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func build(folder, output string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return fmt.Errorf("open the collection's folder: %w", err)
	}
	defer root.Close()

	var archive bytes.Buffer
	if err := collection.Build(root.FS(), &archive); err != nil {
		return fmt.Errorf("build %s: %w", folder, err)
	}
	if err := os.WriteFile(output, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	fmt.Printf("sha256:%x\n", sha256.Sum256(archive.Bytes()))
	return nil
}
