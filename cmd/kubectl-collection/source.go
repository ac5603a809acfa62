package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	pathpkg "path"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/lint"
)

// source is a collection as a cluster gets it.
type source struct {
	collection *collection.Collection
	// digest of the archive, "sha256:<hex>".
	digest string
}

// openArchive opens an archive. Of an author's folder it makes one in memory, if the folder loads as a collection.
func openArchive(path string) (io.ReadSeekCloser, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		content, err := buildFolder(path)
		return memory{bytes.NewReader(content)}, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a folder nor a file", path)
	}
	return os.Open(path)
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

// buildFolder makes the archive of an author's folder. An error of type [collection.Problems] has the lines and columns
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
	if err := collection.Build(root.FS(), &content); err != nil {
		return nil, err
	}
	return content.Bytes(), nil
}

// readSource reads an archive to its end.
func readSource(r io.Reader) (*source, error) {
	hash := sha256.New()
	files, err := archive.Read(io.TeeReader(r, hash), archive.DefaultLimits, collection.NewKeep())
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
	return &source{collection: c, digest: fmt.Sprintf("sha256:%x", hash.Sum(nil))}, nil
}

// loadSource reads a folder or an archive.
func loadSource(path string) (*source, error) {
	content, err := openArchive(path)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return readSource(content)
}

// checksums tell for all files of an archive by path whether mode and content are the same. A link to a file is like that
// file: ansible-galaxy keeps links, and build follows them.
func checksums(r io.Reader) (map[string]string, error) {
	sums := map[string]string{}
	err := archive.Walk(r, archive.DefaultLimits, func(name string, mode fs.FileMode, _ int64, content io.Reader) error {
		switch mode.Type() {
		case fs.ModeDir:
			return nil
		case fs.ModeSymlink: // Walk comes to links after all files.
			target, err := io.ReadAll(content)
			sums[name] = cmp.Or(sums[pathpkg.Join(pathpkg.Dir(name), string(target))], "link "+string(target))
			return err
		}
		hash := sha256.New()
		_, err := io.Copy(hash, content)
		sums[name] = fmt.Sprintf("%s %x", mode, hash.Sum(nil))
		return err
	})
	return sums, err
}

// refused prints what keeps a cluster from installing the collection at path, or a folder from being built, if that is
// what err says, and returns errFindings then. Any other error it returns with the path.
func refused(cmd *cobra.Command, path string, err error) error {
	var problems collection.Problems
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
