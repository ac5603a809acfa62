// Command zoscb-encrypt makes the Secret of a credential for authors' tools that call a program of this name, on a workstation or in the
// pod of an operator. It encrypts nothing: see docs/credentials.md. Others use kubectl collection credential.
package main

import (
	"fmt"
	"os"

	"github.com/collection-operator/collection-operator/internal/author/encrypt"
)

func main() {
	if err := encrypt.Run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "zoscb-encrypt:", err)
		os.Exit(1)
	}
}
