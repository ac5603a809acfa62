// Command mtimes gives each file of a checkout that was not changed, and each folder, a time of modification that follows from its content. Go keeps the
// result of a test for as long as the files that the test has opened have the same paths and times: so what passed in one clone need
// not be repeated in the next one in the same folder, as CI systems make it.
//
//	go run ./hack/mtimes
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// begin is the earliest time, in seconds since 1970: that of folders. It is long ago, since Go ignores files that were just written.
const begin = 1_000_000_000

// symlink is the mode of a symbolic link: its time would be that of the file that it leads to.
const symlink = "120000"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mtimes:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := git("ls-files", "--stage", "-z")
	if err != nil {
		return err
	}
	changed, err := git("diff", "--name-only", "-z") // It compares contents where times differ.
	if err != nil {
		return err
	}
	folders := map[string]bool{}
	for _, entry := range files {
		// Such as "100644 7e59600739c96546163833214c36459e324bad0a 0	docs/install.md".
		info, path, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(info)
		if len(fields) != 3 || len(fields[1]) < 7 {
			return fmt.Errorf("git ls-files has the line %q", entry)
		}
		seconds, err := strconv.ParseInt(fields[1][:7], 16, 64)
		if err != nil {
			return err
		}
		if slices.Contains(changed, path) || fields[0] == symlink {
			continue
		}
		if err := set(path, begin+seconds); err != nil {
			return err
		}
		for folder := filepath.Dir(path); !folders[folder]; folder = filepath.Dir(folder) {
			folders[folder] = true
		}
	}
	var errs []error
	for folder := range folders {
		errs = append(errs, set(folder, begin))
	}
	return errors.Join(errs...)
}

func set(path string, seconds int64) error {
	t := time.Unix(seconds, 0)
	return os.Chtimes(path, t, t)
}

// git returns the entries that a command prints, each of which ends with a zero byte.
func git(args ...string) ([]string, error) {
	command := exec.Command("git", args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
}
