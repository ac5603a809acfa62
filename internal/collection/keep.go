package collection

import (
	"path"
	"slices"
)

// Keep says which files of an archive [Load] reads. Of all others it only needs to know that they exist.
func Keep(name string, _ int64) bool {
	return name == manifestFile || name == galaxyFile || name == runtimeFile ||
		slices.Contains(configFiles, name) || slices.Contains(requirementsFiles, name) || path.Base(name) == pythonFile
}
