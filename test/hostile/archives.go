package hostile

import (
	"archive/tar"
	"bytes"
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// containers are no archive, or more than one.
func containers() []Archive {
	good := Pack(Entry{Name: "MANIFEST.json", Body: "{}"}, Entry{Name: "FILES.json", Body: strings.Repeat("{}\n", 1000)})
	flipped := bytes.Clone(good)
	flipped[len(flipped)-6] ^= 0xff // in the checksum
	badHeader := Tar(Entry{Name: "a"}, Entry{Name: "b"})
	badHeader[512] ^= 0x01
	withTail := append(Tar(Entry{Name: "a"}), Tar(Entry{Name: "hidden"})...)
	content := func(name string, content []byte, reason archive.Reason, message string) Archive {
		return Archive{Name: name, Content: fixed(content), Reason: reason, Message: message}
	}
	return []Archive{
		content("empty file", nil, archive.Truncated, "empty"),
		content("one byte", []byte{0x1f}, archive.NotGzip, ".tar.gz"),
		content("a web page", []byte("<html>"), archive.NotGzip, ".tar.gz"),
		content("plain tar", Tar(Entry{Name: "a"}), archive.NotGzip, ".tar.gz"),
		content("gzip header only", good[:10], archive.Truncated, "too early"),
		content("cut", good[:len(good)/2], archive.Truncated, "too early"),
		content("cut in the checksum", good[:len(good)-3], archive.Truncated, "too early"),
		content("wrong checksum", flipped, archive.Corrupt, "checksum"),
		content("gzip of text", Gzip([]byte("hello")), archive.NotTar, "tar"),
		content("gzip of much text", Gzip(bytes.Repeat([]byte("hello"), 1000)), archive.NotTar, "tar"),
		content("no entries", Pack(), archive.Empty, "no entries"),
		content("only the top directory", Pack(Entry{Name: "./", Type: tar.TypeDir}), archive.Empty, "no entries"),
		content("damaged second header", Gzip(badHeader), archive.Corrupt, "header"),
		content("tar cut", Gzip(Tar(Entry{Name: "a", Body: "content"})[:514]), archive.Truncated, "too early"),
		content("data after the tar", Gzip(withTail), archive.TrailingData, "tar"),
		content("data after the gzip", append(bytes.Clone(good), "tail"...), archive.TrailingData, "gzip"),
		content("zeros after the gzip", append(bytes.Clone(good), make([]byte, 512)...), archive.TrailingData, "gzip"),
		content("second gzip member", append(bytes.Clone(good), good...), archive.TrailingData, "gzip"),
		content("archive in two gzip members", append(Gzip(Tar(Entry{Name: "a"})[:512]), Gzip(Tar(Entry{Name: "a"})[512:])...), archive.TrailingData, "gzip"),
	}
}

// names lead out, or are read in two ways.
func names() []Archive {
	return []Archive{
		refused("absolute", archive.PathEscapes, "absolute", Entry{Name: "/etc/passwd"}),
		refused("parent", archive.PathEscapes, `".."`, Entry{Name: "../x"}),
		refused("parent far up", archive.PathEscapes, `".."`, Entry{Name: strings.Repeat("../", 8) + "etc/cron.d/x"}),
		refused("parent inside", archive.PathEscapes, `".."`, Entry{Name: "a/../x"}),
		refused("parent directory", archive.PathEscapes, `".."`, Entry{Name: "a/..", Type: tar.TypeDir}),
		refused("backslash", archive.InvalidName, "backslash", Entry{Name: `..\x`}),
		refused("drive", archive.InvalidName, "backslash", Entry{Name: `C:\x`}),
		refused("line break", archive.InvalidName, "control", Entry{Name: "a\nb"}),
		refused("not UTF-8", archive.InvalidName, "UTF-8", Entry{Name: "a\xffb"}),
		refused("text that turns around", archive.InvalidName, "invisible", Entry{Name: "playbooks/\u202elmy.yap"}),
		refused("space without width", archive.InvalidName, "invisible", Entry{Name: "play\u200bbook.yml"}),
		refused("no name", archive.InvalidName, "empty", Entry{Name: ""}),
		refused("file named like the top directory", archive.InvalidName, "directory", Entry{Name: "."}),
	}
}

// types are entries that no collection needs.
func types() []Archive {
	return []Archive{
		refused("hard link", archive.UnsupportedEntry, "hard link", Entry{Name: "a", Type: tar.TypeLink, Link: "b"}),
		refused("hard link out", archive.UnsupportedEntry, "hard link", Entry{Name: "a", Type: tar.TypeLink, Link: "../../etc/passwd"}),
		refused("character device", archive.UnsupportedEntry, "device", Entry{Name: "a", Type: tar.TypeChar}),
		refused("block device", archive.UnsupportedEntry, "device", Entry{Name: "a", Type: tar.TypeBlock}),
		refused("pipe", archive.UnsupportedEntry, "pipe", Entry{Name: "a", Type: tar.TypeFifo}),
		refused("unknown type", archive.UnsupportedEntry, "unknown", Entry{Name: "a", Type: 'Z'}),
	}
}

func links() []Archive {
	link := func(name string, reason archive.Reason, message, at, target string) Archive {
		return refused(name, reason, message, Entry{Name: "a/b/file"}, Entry{Name: "top"}, Entry{Name: at, Type: tar.TypeSymlink, Link: target})
	}
	return []Archive{
		link("link to an absolute path", archive.PathEscapes, "absolute", "l", "/etc/passwd"),
		link("link to the parent", archive.PathEscapes, "outside", "l", "../x"),
		link("link to the parent from below", archive.PathEscapes, "outside", "a/l", "../../x"),
		link("link out and in again", archive.PathEscapes, "outside", "a/l", "../../content/top"),
		link("link through a name and up", archive.UnsafeLink, `".."`, "l", "a/b/../b/file"),
		link("link to nothing", archive.UnsafeLink, "does not hold", "l", "missing"),
		link("link to other case", archive.UnsafeLink, "does not hold", "l", "TOP"),
		link("link to itself", archive.UnsafeLink, "symbolic link itself", "l", "l"),
		link("link to its directory", archive.UnsafeLink, "lies in", "a/b/l", ".."),
		link("link to the top", archive.UnsafeLink, "lies in", "l", "."),
		link("link to a file as a directory", archive.UnsafeLink, "not a directory", "l", "top/"),
		link("link without target", archive.InvalidName, "empty", "l", ""),
		link("link with backslash", archive.InvalidName, "backslash", "l", `a\b`),
		refused("link to a link", archive.UnsafeLink, "symbolic link itself",
			Entry{Name: "f"}, Entry{Name: "l", Type: tar.TypeSymlink, Link: "m"}, Entry{Name: "m", Type: tar.TypeSymlink, Link: "f"}),
		refused("file below a link", archive.UnsafeLink, "below the symbolic link",
			Entry{Name: "d/f"}, Entry{Name: "l", Type: tar.TypeSymlink, Link: "d"}, Entry{Name: "l/g"}),
		refused("file below a link out", archive.UnsafeLink, "below the symbolic link",
			Entry{Name: "l", Type: tar.TypeSymlink, Link: "/tmp"}, Entry{Name: "l/written"}),
		refused("link over a directory", archive.DuplicateEntry, "twice",
			Entry{Name: "d/f"}, Entry{Name: "d", Type: tar.TypeSymlink, Link: "d/f"}),
	}
}

// collisions are two names that some file system, or somebody who reads them, takes for one.
func collisions() []Archive {
	two := func(name, message, first, second string) Archive {
		return refused(name, archive.DuplicateEntry, message, Entry{Name: first}, Entry{Name: second})
	}
	return []Archive{
		two("twice", "twice", "a", "./a"),
		refused("file and directory", archive.DuplicateEntry, "twice", Entry{Name: "a"}, Entry{Name: "a/", Type: tar.TypeDir}),
		refused("directory twice", archive.DuplicateEntry, "twice", Entry{Name: "a/", Type: tar.TypeDir}, Entry{Name: "a/", Type: tar.TypeDir}),
		two("other case", "case", "a/readme", "a/README"),
		two("directory in other case", "case", "a/x", "A/y"),
		two("below a file", "is a file", "a", "a/b"),
		two("composed and decomposed", "look", "caf\u00e9.yml", "cafe\u0301.yml"),
		two("directory decomposed", "look", "caf\u00e9/a.yml", "cafe\u0301/b.yml"),
		two("sharp s", "case", "stra\u00dfe.yml", "STRASSE.yml"),
		two("Kelvin sign", "case", "k.yml", "\u212a.yml"),
		two("long s", "case", "tasks.yml", "ta\u017fks.yml"),
		two("final sigma", "case", "\u03c3.yml", "\u03c2.yml"),
		two("full width", "look", "run.yml", "\uff52un.yml"),
		two("ligature", "case", "file.yml", "\ufb01le.yml"),
	}
}

// headers say one thing to a reader and another to the next, or more than a header may.
func headers() []Archive {
	raw := func(name string, reason archive.Reason, message string, kind byte, records string) Archive {
		return Archive{
			Name: name, Reason: reason, Message: message,
			Content: func() []byte { return Gzip(withRecords(kind, records)) },
		}
	}
	record := func(pairs ...string) string {
		var b strings.Builder
		for i := 0; i < len(pairs); i += 2 {
			b.WriteString(paxRecord(pairs[i], pairs[i+1]))
		}
		return b.String()
	}
	return []Archive{
		raw("path in a PAX record", archive.PathEscapes, `".."`, tar.TypeXHeader, record("path", "../x")),
		raw("absolute path in a PAX record", archive.PathEscapes, "absolute", tar.TypeXHeader, record("path", "/etc/passwd")),
		raw("size in a PAX record", archive.TooLarge, "larger", tar.TypeXHeader, record("size", "9000000000000000000")),
		raw("negative size in a PAX record", archive.Corrupt, "header", tar.TypeXHeader, record("size", "-1")),
		raw("damaged PAX record", archive.Corrupt, "header", tar.TypeXHeader, "999 path=x\n"),
		raw("NUL in a PAX record", archive.Corrupt, "header", tar.TypeXHeader, record("path", "a\x00b")),
		raw("path for all entries", archive.UnsupportedEntry, "all entries", tar.TypeXGlobalHeader, record("path", "b")),
		raw("sparse file", archive.UnsupportedEntry, "sparse", tar.TypeXHeader,
			record("GNU.sparse.major", "0", "GNU.sparse.minor", "1", "GNU.sparse.size", "1048576", "GNU.sparse.numblocks", "1", "GNU.sparse.map", "1048576,0")),
		raw("name of a sparse file", archive.UnsupportedEntry, "sparse", tar.TypeXHeader, record("GNU.sparse.name", "b")),
		raw("old sparse file", archive.UnsupportedEntry, "unknown", tar.TypeGNUSparse, ""),
		raw("header that never ends", archive.Corrupt, "header", tar.TypeXHeader, record("comment", strings.Repeat("x", 2<<20))),
		raw("long name that never ends", archive.Corrupt, "header", tar.TypeGNULongName, strings.Repeat("x", 2<<20)),
	}
}

func paxRecord(key, value string) string {
	size := len(key) + len(value) + 3 // blank, = and line end
	text := fmt.Sprintf("%d %s=%s\n", size, key, value)
	for len(text) != size {
		size = len(text)
		text = fmt.Sprintf("%d %s=%s\n", size, key, value)
	}
	return text
}

// withRecords is a tar of a sound entry, an extended header of this type with these records, and a file for it to describe:
// such headers Go's tar.Writer does not write.
func withRecords(kind byte, records string) []byte {
	sound, file := Tar(Entry{Name: "sound"}), Tar(Entry{Name: "file", Body: "content"})
	header := Tar(Entry{Name: "header", Body: records})
	header = header[:len(header)-1024]
	header[156] = kind
	if kind == tar.TypeGNUSparse {
		copy(header[257:], "ustar  \x00")
	}
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header[:512] {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return bytes.Join([][]byte{sound[:512], header, file}, nil)
}
