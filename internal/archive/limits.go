package archive

// Limits bounds what one archive may cost. A field that is zero takes its value from DefaultLimits,
// so no archive is ever read without a bound. The compressed size is bounded by whoever fetches it.
type Limits struct {
	// TotalBytes bounds the uncompressed archive, tar headers included.
	TotalBytes int64
	// FileBytes bounds the content of one file.
	FileBytes int64
	// KeptBytes bounds the content that Read holds in memory.
	KeptBytes int64
	// Entries bounds files, links and directories, including directories that are only implied by a path.
	Entries int
	// Depth bounds the components of a path: "a/b/c" has three.
	Depth int
	// NameBytes bounds the whole path of an entry, and the target of a link.
	NameBytes int
}

// DefaultLimits leaves room for the largest public z/OS collections with their embedded wheels and plugins.
var DefaultLimits = Limits{
	TotalBytes: 1 << 30,
	FileBytes:  256 << 20,
	KeptBytes:  32 << 20,
	Entries:    50_000,
	Depth:      32,
	NameBytes:  512,
}

func (l Limits) withDefaults() Limits {
	if l.TotalBytes <= 0 {
		l.TotalBytes = DefaultLimits.TotalBytes
	}
	if l.FileBytes <= 0 {
		l.FileBytes = DefaultLimits.FileBytes
	}
	if l.KeptBytes <= 0 {
		l.KeptBytes = DefaultLimits.KeptBytes
	}
	if l.Entries <= 0 {
		l.Entries = DefaultLimits.Entries
	}
	if l.Depth <= 0 {
		l.Depth = DefaultLimits.Depth
	}
	if l.NameBytes <= 0 {
		l.NameBytes = DefaultLimits.NameBytes
	}
	return l
}
