package archive

import (
	"bytes"
	"errors"
	"io"
)

// headBytes is how much of a file is enough to recognize it: a tar file says what it is after 257 bytes.
const headBytes = 512

var (
	gzipMagic = []byte("\x1f\x8b")
	tarMagic  = []byte("ustar")
)

// mistakes are files that are published or uploaded in the place of an archive, each with what to do.
var mistakes = []struct {
	is   func(head []byte) bool
	text string
}{
	{isPage, "the file is a web page (HTML or XML), such as one to log in or of an error: use the address from which the .tar.gz itself is downloaded, with credentials if it needs them"},
	{beginsWith("version https://git-lfs.github.com/spec/"), "the file is a Git LFS pointer and not the archive that it stands for: run git lfs pull before it is published, or use the address from which Git LFS downloads it"},
	{beginsWith("PK\x03\x04"), "the file is a zip file: use the .tar.gz that is in it, or build one with kubectl collection build"},
	{isTar, "the file is a tar file that is not compressed: compress it to a .tar.gz, or build the archive with kubectl collection build"},
}

// Recognize says what a file is, and what to do, if its content is something else that is often published in the place of an archive. It is
// nil for all others, also if they are no archives either.
func Recognize(content io.Reader) error {
	head := make([]byte, headBytes)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // Whoever reads the archive reports it.
	}
	if mistake := recognize(head[:n]); mistake != nil {
		return mistake
	}
	return nil
}

func recognize(head []byte) *Error {
	if len(head) == 0 {
		return refuse(Truncated, "", "the file is empty: build the archive with kubectl collection build, and publish or upload it again")
	}
	for _, mistake := range mistakes {
		if mistake.is(head) && !bytes.HasPrefix(head, gzipMagic) {
			return refuse(NotGzip, "", "%s", mistake.text)
		}
	}
	return nil
}

func beginsWith(text string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(text)) }
}

func isPage(head []byte) bool {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	return bytes.HasPrefix(text, []byte("<"))
}

func isTar(head []byte) bool {
	const offset = 257
	return len(head) > offset && bytes.HasPrefix(head[offset:], tarMagic)
}
