package archive

import (
	"archive/tar"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// Reason is the CamelCase reason for which an archive was rejected. It can be used as the reason of a condition.
type Reason string

const (
	// NotGzip: the file has no gzip header.
	NotGzip Reason = "NotGzip"
	// NotTar: the gzip content is not a tar archive.
	NotTar Reason = "NotTar"
	// Empty: the archive holds no entries.
	Empty Reason = "EmptyArchive"
	// Truncated: the archive ends too early.
	Truncated Reason = "Truncated"
	// Corrupt: the compressed data, a checksum or a tar header is damaged.
	Corrupt Reason = "Corrupt"
	// Unreadable: the file could not be read. The archive itself may be valid.
	Unreadable Reason = "Unreadable"
	// TrailingData: something follows the end of the archive.
	TrailingData Reason = "TrailingData"
	// PathEscapes: a path is absolute or contains "..".
	PathEscapes Reason = "PathEscapes"
	// InvalidName: a path is empty, or contains backslashes, control or invisible characters, or invalid UTF-8.
	InvalidName Reason = "InvalidName"
	// UnsafeLink: a symbolic link does not point to a file or directory of the same archive.
	UnsafeLink Reason = "UnsafeLink"
	// UnsupportedEntry: an entry is neither file, directory nor symbolic link, or a sparse file.
	UnsupportedEntry Reason = "UnsupportedEntry"
	// DuplicateEntry: two entries have the same path, or paths that differ only in case or in how characters look.
	DuplicateEntry Reason = "DuplicateEntry"
	// TooLarge: a file, the archive, or the content to keep in memory exceeds its limit.
	TooLarge Reason = "TooLarge"
	// TooManyEntries: the archive holds more entries than allowed.
	TooManyEntries Reason = "TooManyEntries"
	// TooDeep: a path has more components than allowed.
	TooDeep Reason = "TooDeep"
	// NameTooLong: a path or link target is longer than allowed.
	NameTooLong Reason = "NameTooLong"
)

// Error reports why an archive was rejected. Its text is deterministic.
type Error struct {
	Reason Reason
	// Entry is the path in the archive, or empty if the error concerns the whole archive.
	Entry string
	Err   error
}

// Error implements error. Long and unprintable entry names are shortened and quoted.
func (e *Error) Error() string {
	if e.Entry == "" {
		return fmt.Sprintf("archive: %v", e.Err)
	}
	return fmt.Sprintf("archive entry %s: %v", quote(e.Entry), e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func refuse(reason Reason, entry, format string, args ...any) *Error {
	return &Error{Reason: reason, Entry: entry, Err: fmt.Errorf(format, args...)}
}

func quote(name string) string {
	const most = 120
	if len(name) <= most {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q...", name[:most])
}

// readFailure converts an error of the gzip or tar reader to an *Error.
func readFailure(entry string, err error) error {
	var own *Error
	var corrupt flate.CorruptInputError
	switch {
	case errors.As(err, &own):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return refuse(Truncated, entry, "the archive ends too early")
	case errors.Is(err, gzip.ErrChecksum):
		return refuse(Corrupt, entry, "the gzip checksum does not match")
	case errors.Is(err, gzip.ErrHeader), errors.As(err, &corrupt):
		return refuse(Corrupt, entry, "the compressed data is damaged")
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return refuse(Corrupt, entry, "a tar header is damaged")
	default:
		return &Error{Reason: Unreadable, Entry: entry, Err: fmt.Errorf("cannot be read: %w", err)}
	}
}
