// Package hostile makes archives that must be refused: what somebody would write who wants out of the folder, more memory
// than there is, or one thing to be checked and another to be run. Tests push each of them through whatever reads archives.
package hostile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"slices"

	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Archive is one that must be refused.
type Archive struct {
	Name string
	// Content makes the archive, the same each time.
	Content func() []byte
	// Reason is why package archive refuses it; "" for one of [Collections].
	Reason archive.Reason
	// Rule is the rule of package model that one of [Collections] breaks.
	Rule string
	// Message is a part of the message, which must help.
	Message string
}

// Archives are refused as archives, whatever is in them. Those that exceed a limit exceed one of these, by as little as
// possible.
func Archives(limits archive.Limits) []Archive {
	return slices.Concat(containers(), names(), types(), links(), collisions(), headers(), bombs(limits))
}

// Entry is an entry of a tar. Without a type it is a file with the body as content.
type Entry struct {
	Name string
	Type byte
	Body string
	Link string
	Mode int64
	// PAX are further records of the entry's header.
	PAX map[string]string
}

// Pack makes an archive of entries as they are.
func Pack(entries ...Entry) []byte { return Gzip(Tar(entries...)) }

// Tar makes a tar of entries as they are. It panics if there is no way to write one.
func Tar(entries ...Entry) []byte {
	var buffer bytes.Buffer
	writeTar(&buffer, entries)
	return buffer.Bytes()
}

func writeTar(w io.Writer, entries []Entry) {
	writer := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{Typeflag: e.Type, Name: e.Name, Linkname: e.Link, Mode: e.Mode, Size: int64(len(e.Body)), PAXRecords: e.PAX}
		switch {
		case e.Type == tar.TypeXGlobalHeader:
			header = &tar.Header{Typeflag: e.Type, Name: e.Name, PAXRecords: e.PAX}
		case e.Mode == 0:
			header.Mode = 0o644
		}
		if e.Type == 0 {
			header.Typeflag = tar.TypeReg
		}
		must(writer.WriteHeader(header))
		_, err := io.WriteString(writer, e.Body)
		must(err)
	}
	must(writer.Close())
}

// Gzip compresses.
func Gzip(content []byte) []byte {
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
	must(err)
	_, err = w.Write(content)
	must(err)
	must(w.Close())
	return buffer.Bytes()
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("make a hostile archive: %v", err))
	}
}

// fixed is content that costs nothing to keep.
func fixed(content []byte) func() []byte { return func() []byte { return bytes.Clone(content) } }

func refused(name string, reason archive.Reason, message string, entries ...Entry) Archive {
	return Archive{Name: name, Content: func() []byte { return Pack(entries...) }, Reason: reason, Message: message}
}
