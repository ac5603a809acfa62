package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// format is the number of the layout of a store. It changes only if a version that knows the former one would lose or misread
	// something. A store without a number has the first.
	format = 1
	// formatFile has the number.
	formatFile = "format"
	// maxFormatBytes limits what is read of it.
	maxFormatBytes = 16
)

// checkFormat refuses a store that a later version wrote in a layout that this one does not know, and records the layout of a new
// one.
func checkFormat(dir string) error {
	path := filepath.Join(dir, formatFile)
	content, err := readFormat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFormat(path)
	}
	if err != nil {
		return err
	}
	found, err := strconv.Atoi(strings.TrimSpace(content))
	switch {
	case err != nil || found < 1:
		return fmt.Errorf("%s has no number: delete the directory %s, and the manager fetches the archives again", path, dir)
	case found > format:
		return fmt.Errorf("%s says %d, and this version of the manager knows storage formats up to %d: install the later version again, or delete the directory %s, and the manager fetches the archives again",
			path, found, format, dir)
	}
	return nil
}

func readFormat(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFormatBytes {
		return "", nil
	}
	content, err := os.ReadFile(path)
	return string(content), err
}

func writeFormat(path string) error {
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, fmt.Appendln(nil, format), fileMode); err != nil {
		return err
	}
	if err := os.Chmod(temporary, fileMode); err != nil { // The umask may have removed the group.
		return err
	}
	return os.Rename(temporary, path)
}
