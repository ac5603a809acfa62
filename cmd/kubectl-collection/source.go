package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// source is a collection as a cluster gets it, with all problems that lint finds: somebody else than its author decides whether they matter.
type source struct {
	collection *model.Collection
	// settings are the author's for lint.
	settings lint.Settings
	files    *archive.Files
	// digest of the archive.
	digest digest.Digest
}

// loadSource reads an archive, or an author's folder by way of the archive that is built from it in memory.
func loadSource(path string) (*source, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		content, err := buildFolder(path)
		if err != nil {
			return nil, err
		}
		return readSource(bytes.NewReader(content))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a folder nor a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSource(f)
}

// buildFolder makes the archive of an author's folder. An error of type [findings.Problems] has the lines and columns
// of the author's files.
func buildFolder(path string) ([]byte, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	problems, _, err := lint.CheckFolder(root.FS())
	if err != nil {
		return nil, err
	}
	if len(problems.Refused()) > 0 {
		return nil, problems
	}
	var content bytes.Buffer
	if err := galaxy.Build(root.FS(), &content); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// readSource reads an archive to its end.
func readSource(r io.Reader) (*source, error) {
	digester := digest.SHA256.Digester()
	files, err := archive.Read(io.TeeReader(r, digester.Hash()), archive.DefaultLimits, lint.NewKeep())
	if err != nil {
		return nil, err
	}
	c, problems, err := lint.Check(files)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, problems
	}
	settings, unsettled, err := lint.ReadSettings(files)
	if err != nil {
		return nil, err
	}
	c.Problems = findings.Merge(problems, unsettled)
	return &source{collection: c, settings: settings, files: files, digest: digester.Digest()}, nil
}

// checksums are, for each file of an archive by path, whether mode and content are the same. A link to a file is like that
// file: ansible-galaxy keeps links, and build follows them.
func checksums(files *archive.Files) (map[string]string, error) {
	sums := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := files.Stat(name)
		if err != nil {
			return err
		}
		if sum, isFile := files.SHA256(name); isFile {
			sums[name] = fmt.Sprintf("%s %x", info.Mode(), sum)
			return nil
		}
		target, err := files.ReadLink(name)
		sums[name] = "link " + target
		return err
	})
	return sums, err
}

// refused prints what keeps a cluster from installing the collection at path, or a folder from being built, if that is
// what err says, and returns errFindings then. Any other error it returns with the path.
func refused(cmd *cobra.Command, path string, err error) error {
	var problems findings.Problems
	if !errors.As(err, &problems) {
		var pathError *fs.PathError
		if errors.As(err, &pathError) && pathError.Path == path {
			return err
		}
		return fmt.Errorf("%s: %w", path, err)
	}
	what := "a cluster refuses this collection"
	shown := problems.Refused()
	if len(shown) == 0 {
		what, shown = "no archive can be built of this folder", problems
	}
	w := cmd.ErrOrStderr()
	if err := writeText(w, path, shown); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s: correct it, and see `%s lint` for all that can be said about it\n", path, what, cmd.Root().DisplayName())
	return errFindings
}
