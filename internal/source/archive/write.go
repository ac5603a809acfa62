package archive

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// Write writes the named files and directories of fsys as a tar.gz, or everything below "." if names is nil. Links are
// followed. A directory is written without its content. The output is reproducible: entries are sorted, files have mode 0644
// or 0755, owner 0 and a fixed time, and the gzip header has no time.
func Write(w io.Writer, fsys fs.FS, names []string) error {
	names, err := sortedNames(fsys, names)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	for _, name := range names {
		if err := writeEntry(archive, fsys, name); err != nil {
			return fmt.Errorf("write archive entry %s: %w", quote(name), err)
		}
	}
	if err := cmp.Or(archive.Close(), zipped.Close()); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

func sortedNames(fsys fs.FS, names []string) ([]string, error) {
	if names != nil {
		names = slices.Sorted(slices.Values(names))
		return slices.Compact(names), nil
	}
	err := fs.WalkDir(fsys, ".", func(name string, _ fs.DirEntry, err error) error {
		if name != "." {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the files of the archive: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

func writeEntry(archive *tar.Writer, fsys fs.FS, name string) error {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: 0o644, ModTime: time.Unix(0, 0)}
	if info.IsDir() {
		header.Typeflag, header.Name, header.Mode = tar.TypeDir, name+"/", 0o755
		return archive.WriteHeader(header)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("is not a regular file or directory")
	}
	if info.Mode()&0o111 != 0 {
		header.Mode = 0o755
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return err
}
