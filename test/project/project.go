// Package project finds the files of the repository, from the folder of any test.
package project

import (
	"errors"
	"os"
	"path/filepath"
)

// Dir returns the folder of go.mod.
func Dir() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no parent folder has a go.mod")
		}
	}
	return "", err
}
