package archive

import "cmp"

// Limits are the limits for one archive. A field that is zero has its value from DefaultLimits. The compressed size is
// limited by the fetcher.
type Limits struct {
	// TotalBytes is the maximum size of the uncompressed archive, including tar headers.
	TotalBytes int64
	// FileBytes is the maximum size of one file.
	FileBytes int64
	// KeptBytes is the maximum size of the content that Read keeps in memory.
	KeptBytes int64
	// Entries is the maximum number of files, links and directories, including directories that are only implied by a path.
	Entries int
	// Depth is the maximum number of components of a path: "a/b/c" has three.
	Depth int
	// NameBytes is the maximum length of a path, and of the target of a link.
	NameBytes int
}

// DefaultLimits accepts the largest public z/OS collections with their embedded wheels and plugins.
var DefaultLimits = Limits{
	TotalBytes: 1 << 30,
	FileBytes:  256 << 20,
	KeptBytes:  32 << 20,
	Entries:    50_000,
	Depth:      32,
	NameBytes:  512,
}

func (l Limits) withDefaults() Limits {
	return Limits{
		TotalBytes: cmp.Or(max(l.TotalBytes, 0), DefaultLimits.TotalBytes),
		FileBytes:  cmp.Or(max(l.FileBytes, 0), DefaultLimits.FileBytes),
		KeptBytes:  cmp.Or(max(l.KeptBytes, 0), DefaultLimits.KeptBytes),
		Entries:    cmp.Or(max(l.Entries, 0), DefaultLimits.Entries),
		Depth:      cmp.Or(max(l.Depth, 0), DefaultLimits.Depth),
		NameBytes:  cmp.Or(max(l.NameBytes, 0), DefaultLimits.NameBytes),
	}
}
