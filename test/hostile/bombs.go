package hostile

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// bombs exceed a limit each.
func bombs(l archive.Limits) []Archive {
	many := func(name func(int) string, count int) func() []byte {
		return func() []byte {
			entries := make([]Entry, count)
			for i := range entries {
				entries[i] = Entry{Name: name(i)}
			}
			return Pack(entries...)
		}
	}
	deep := strings.Repeat("d/", l.Depth-1)
	largest, total := fmt.Sprint(l.FileBytes), fmt.Sprint(l.TotalBytes)
	return []Archive{
		{Name: "large file", Reason: archive.TooLarge, Message: largest, Content: func() []byte { return zeros(1, l.FileBytes+1) }},
		{Name: "large file that is not there", Reason: archive.TooLarge, Message: largest, Content: func() []byte { return promised(l.FileBytes + 1) }},
		{Name: "large archive", Reason: archive.TooLarge, Message: total, Content: func() []byte { return zeros(l.TotalBytes/l.FileBytes+1, l.FileBytes) }},
		{Name: "nothing but zeros", Reason: archive.TooLarge, Message: total, Content: func() []byte { return zeros(0, l.TotalBytes+1) }},
		{Name: "many files", Reason: archive.TooManyEntries, Message: fmt.Sprint(l.Entries),
			Content: many(func(i int) string { return fmt.Sprintf("f%d", i) }, l.Entries+1)},
		{Name: "many implied directories", Reason: archive.TooManyEntries, Message: fmt.Sprint(l.Entries),
			Content: many(func(i int) string { return fmt.Sprintf("%d/%sx", i, deep[:2*(l.Depth-2)]) }, l.Entries/l.Depth+1)},
		{Name: "many global headers", Reason: archive.TooManyEntries, Message: fmt.Sprint(l.Entries), Content: func() []byte {
			header := Tar(Entry{Name: "pax_global_header", Type: tar.TypeXGlobalHeader, PAX: map[string]string{"comment": "x"}})
			return Gzip(append(bytes.Repeat(header[:1024], l.Entries+1), Tar(Entry{Name: "a"})...))
		}},
		refused("too deep", archive.TooDeep, fmt.Sprint(l.Depth), Entry{Name: deep + "d/x"}),
		refused("long name", archive.NameTooLong, fmt.Sprint(l.NameBytes), Entry{Name: strings.Repeat("x", l.NameBytes+1)}),
		refused("very long name", archive.NameTooLong, "...", Entry{Name: strings.Repeat("x", 100*l.NameBytes)}),
		refused("long link", archive.NameTooLong, fmt.Sprint(l.NameBytes),
			Entry{Name: "top"}, Entry{Name: "l", Type: tar.TypeSymlink, Link: strings.Repeat("./", l.NameBytes/2) + "top"}),
	}
}

// zeros is an archive of files that hold nothing but zeros, or without files of zeros itself. It shrinks to a thousandth.
func zeros(files, size int64) []byte {
	var buffer bytes.Buffer
	w, err := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
	must(err)
	write := func(n int64) {
		block := make([]byte, min(n, 1<<20))
		for ; n > 0; n -= int64(len(block)) {
			_, err := w.Write(block[:min(n, int64(len(block)))])
			must(err)
		}
	}
	if files == 0 {
		write(size)
	}
	for i := range files {
		_, err := w.Write(head(fmt.Sprintf("f%d", i), size))
		must(err)
		write((size + 511) / 512 * 512)
	}
	write(1024)
	must(w.Close())
	return buffer.Bytes()
}

// promised is an archive whose only file is larger than the archive.
func promised(size int64) []byte { return Gzip(append(head("f", size), make([]byte, 1024)...)) }

func head(name string, size int64) []byte {
	var buffer bytes.Buffer
	must(tar.NewWriter(&buffer).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}))
	return buffer.Bytes()
}
