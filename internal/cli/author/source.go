package author

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Source is a collection as a cluster gets it, with all problems that lint finds: somebody else than its author decides whether they matter.
type Source struct {
	Collection *model.Collection
	// settings are the author's for lint.
	settings lint.Settings
	files    *archive.Files
	// digest of the archive.
	Digest digest.Digest
}

// LoadSource reads an archive, or an author's folder by way of the archive that is built from it in memory.
func LoadSource(path string) (*Source, error) {
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

// LoadRunSource reads a collection with the content of its archive.
func LoadRunSource(path string) (localrun.Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return localrun.Source{}, err
	}
	var content []byte
	if info.IsDir() {
		content, err = buildFolder(path)
	} else {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return localrun.Source{}, err
	}
	s, err := readSource(bytes.NewReader(content))
	if err != nil {
		return localrun.Source{}, err
	}
	return localrun.Source{Collection: s.Collection, Archive: content, Digest: digest.FromBytes(content)}, nil
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
func readSource(r io.Reader) (*Source, error) {
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
	return &Source{Collection: c, settings: settings, files: files, Digest: digester.Digest()}, nil
}

func digestOf(path string) (archive digest.Digest, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	digester := digest.SHA256.Digester()
	size, err = io.Copy(digester.Hash(), f)
	return digester.Digest(), size, err
}

// Refused prints what keeps a cluster from installing the collection at path, or a folder from being built, if that is
// what err says, and returns errFindings then. Any other error it returns with the path.
func Refused(cmd *cobra.Command, path string, err error) error {
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
	if err := WriteText(w, path, shown); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s: correct it, and see `%s lint` for all that can be said about it\n", path, what, cmd.Root().DisplayName())
	return kit.ErrFindings
}

// ParseAddress returns nil for the path of a folder or file.
func ParseAddress(source string) *url.URL {
	address, err := url.Parse(source)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" {
		return nil
	}
	return address
}

// DisplayPath is what to call a source. An address may hold credentials.
func DisplayPath(source string) string {
	if address := ParseAddress(source); address != nil {
		return path.Base("/" + address.Path)
	}
	return source
}

// WriteText prints findings for people, one per line.
func WriteText(w io.Writer, path string, problems findings.Problems) error {
	color := kit.Colored(w)
	for _, f := range problems.Listed(path) {
		_, err := fmt.Fprintf(w, "%s:%d:%d: %s %s: %s\n", printable.Escape(f.File), f.Line, f.Column, color.Severity(f.Severity), f.Rule, printable.Escape(f.Message))
		if err != nil {
			return err
		}
	}
	return nil
}
