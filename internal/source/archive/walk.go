// Package archive reads and writes collection archives (tar.gz). Archives are untrusted input: no entry can leave the
// archive's tree, every read is bounded, and an archive is accepted as a whole or rejected with a Reason.
//
// An archive may contain regular files, directories, and symbolic links with a relative target that is itself a file or
// directory of the archive (`ansible-galaxy collection build` stores links inside a collection that way). Since no entry may
// lie below a link, and no link may point to or through another one, a link cannot leave the tree.
//
// There is no limit on the compression ratio. Gzip expands at most a thousandfold, so an archive of one megabyte expands to
// the gigabyte that Limits.TotalBytes allows anyway. Reading that takes a few seconds of CPU time and no memory. Repetitive
// text compresses a hundredfold: a useful limit would reject valid collections.
package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Visit is called by Walk for one entry. The name is clean, relative and slash-separated, and never ".". The mode is 0644 or
// 0755 for a file, 0755 with fs.ModeDir for a directory, 0777 with fs.ModeSymlink for a link; the content of a link is its
// target. The content need not be read, and must not be used after the call.
type Visit func(name string, mode fs.FileMode, size int64, content io.Reader) error

// Walk reads a tar.gz in one pass and calls visit for each entry, in the order of the archive. Links are visited last, after
// all of them are validated. Implied directories are not visited. It fails with *Error if the archive is rejected, or with
// the error of visit. Entries may have been visited before the error: the caller must discard them if Walk returns an error.
func Walk(r io.Reader, limits Limits, visit Visit) error {
	return walk(r, limits, func(name string, mode fs.FileMode, size int64, _ time.Time, content io.Reader) error {
		return visit(name, mode, size, content)
	})
}

// timedVisit is a Visit with the modification time of files. Other entries have no time.
type timedVisit func(name string, mode fs.FileMode, size int64, changed time.Time, content io.Reader) error

func walk(r io.Reader, limits Limits, visit timedVisit) error {
	limits = limits.withDefaults()
	compressed := bufio.NewReader(r)
	stream, err := openStream(compressed, limits.TotalBytes)
	if err != nil {
		return err
	}
	w := &walker{limits: limits, nodes: map[string]*node{}, visit: visit}
	archive := tar.NewReader(stream)
	for first := true; ; first = false {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			if first && stream.looksComplete(err) {
				return refuse(NotTar, "", "the gzip file does not hold a tar archive")
			}
			return readFailure("", err)
		}
		if err := w.entry(header, archive); err != nil {
			return err
		}
	}
	if err := stream.expectEnd(compressed); err != nil {
		return err
	}
	if len(w.nodes) == 0 {
		return refuse(Empty, "", "the archive holds no entries")
	}
	return w.visitLinks()
}

// stream reads the uncompressed archive, and fails at its limit.
type stream struct {
	gzip  *gzip.Reader
	limit int64
	read  int64
	ended bool // The gzip file is complete and its checksum is valid.
}

func openStream(compressed *bufio.Reader, limit int64) (*stream, error) {
	magic, err := compressed.Peek(2)
	switch {
	case errors.Is(err, io.EOF) && len(magic) == 0:
		return nil, refuse(Truncated, "", "the file is empty")
	case err != nil && !errors.Is(err, io.EOF):
		return nil, readFailure("", err)
	case string(magic) != "\x1f\x8b":
		return nil, refuse(NotGzip, "", "the file is not a gzip file; a collection archive is a .tar.gz")
	}
	unzipped, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, readFailure("", err)
	}
	unzipped.Multistream(false)
	return &stream{gzip: unzipped, limit: limit}, nil
}

func (s *stream) Read(p []byte) (int, error) {
	if int64(len(p)) > s.limit-s.read+1 {
		p = p[:s.limit-s.read+1]
	}
	n, err := s.gzip.Read(p)
	s.read += int64(n)
	if s.read > s.limit {
		return 0, refuse(TooLarge, "", "the uncompressed archive is larger than %d bytes", s.limit)
	}
	s.ended = s.ended || errors.Is(err, io.EOF)
	return n, err
}

func (s *stream) looksComplete(err error) bool {
	return errors.Is(err, tar.ErrHeader) || s.ended
}

// expectEnd verifies that only zeros, the padding of the last tar record, follow the last entry, and nothing follows the
// gzip file: another reader might interpret data that was not validated.
func (s *stream) expectEnd(compressed *bufio.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.Read(buffer)
		for _, b := range buffer[:n] {
			if b != 0 {
				return refuse(TrailingData, "", "data follows the end of the tar archive")
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return readFailure("", err)
		}
	}
	switch _, err := compressed.ReadByte(); {
	case err == nil:
		return refuse(TrailingData, "", "data follows the end of the gzip file")
	case !errors.Is(err, io.EOF):
		return readFailure("", err)
	}
	return nil
}

type walker struct {
	limits  Limits
	visit   timedVisit
	nodes   map[string]*node // by collisionKey
	links   []link
	headers int
	bytes   int64
}

func (w *walker) entry(header *tar.Header, content io.Reader) error {
	w.headers++
	if w.headers > w.limits.Entries {
		return refuse(TooManyEntries, "", "the archive holds more than %d entries", w.limits.Entries)
	}
	kind, err := kindOf(header)
	if err != nil {
		return err
	}
	if kind == ignored {
		return nil
	}
	name, err := w.cleanName(header.Name, kind)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	if err := w.add(name, kind); err != nil {
		return err
	}
	switch kind {
	case directory:
		return w.visit(name, fs.ModeDir|0o755, 0, time.Time{}, strings.NewReader(""))
	case symlink:
		w.links = append(w.links, link{name: name, target: header.Linkname})
		return nil
	default:
		return w.file(name, header, content)
	}
}

func (w *walker) file(name string, header *tar.Header, content io.Reader) error {
	if header.Size > w.limits.FileBytes {
		return refuse(TooLarge, name, "the file is larger than %d bytes", w.limits.FileBytes)
	}
	// A sparse file may be larger than its data in the stream.
	w.bytes += header.Size
	if w.bytes > w.limits.TotalBytes {
		return refuse(TooLarge, "", "the uncompressed archive is larger than %d bytes", w.limits.TotalBytes)
	}
	mode := fs.FileMode(0o644)
	if header.Mode&0o111 != 0 {
		mode = 0o755
	}
	return w.visit(name, mode, header.Size, header.ModTime, &fileContent{name: name, r: content})
}

func (w *walker) visitLinks() error {
	for i := range w.links {
		if err := w.checkLink(&w.links[i]); err != nil {
			return err
		}
	}
	for _, l := range w.links {
		if err := w.visit(l.name, fs.ModeSymlink|0o777, int64(len(l.target)), time.Time{}, strings.NewReader(l.target)); err != nil {
			return err
		}
	}
	return nil
}

// fileContent adds reason and entry to read errors.
type fileContent struct {
	name string
	r    io.Reader
}

func (c *fileContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = readFailure(c.name, err)
	}
	return n, err
}
