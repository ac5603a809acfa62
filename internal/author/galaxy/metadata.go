// Package galaxy builds the archive of an author's folder, as ansible-galaxy does, and checks what that needs of the folder.
package galaxy

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/Masterminds/semver/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

var rules findings.Rules

// Rules returns the rules that [Check] and [Build] check.
func Rules() findings.Rules { return rules }

var (
	ruleGalaxyBuild = rules.Error("galaxy-build", "", "galaxy.yml has what an archive needs: readme, authors and a semantic version; no manifest directives, and at most 200 patterns in build_ignore.")
	// RuleArchive is also about archives that cannot be read.
	RuleArchive = rules.Refused("archive", "", "The archive, or the one that is built of a folder, can be unpacked: it is whole, not too large, and no path or link in it leads out of it.")
)

// Bounds on build_ignore: the bytes of a pattern, and the number of patterns.
const (
	maxPatternBytes = 1024
	maxPatterns     = 200
)

// metadata is what a galaxy.yml says: what stays in the archive, and what matters for building it alone.
type metadata struct {
	model.Galaxy
	readme, licenseFile string
	buildIgnore         []string
}

// Check returns what an archive needs of the galaxy.yml of an author's folder, and the problems of the metadata themselves.
// A folder with a MANIFEST.json is an unpacked archive, of which nothing is built.
func Check(fsys fs.FS) (findings.Problems, error) {
	_, built := fs.Stat(fsys, model.ManifestFile)
	if _, err := fs.Stat(fsys, model.GalaxyFile); built == nil || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	_, problems, err := readMetadata(fsys)
	return problems, err
}

// readMetadata reads the galaxy.yml at the root. The problems are sorted.
func readMetadata(fsys fs.FS) (metadata, findings.Problems, error) {
	common, root, r, err := model.ReadGalaxyYAML(fsys)
	if err != nil {
		return metadata{}, nil, fmt.Errorf("read the collection: %w", err)
	}
	m := metadata{Galaxy: common}
	if root.Present() {
		m.readme, m.licenseFile = root.Get("readme").Text(), root.Get("license_file").Text()
		m.buildIgnore = root.Get("build_ignore").TextOrList()
		m.check(root)
	}
	r.Problems.Sort()
	return m, r.Problems, nil
}

// check reports what an archive needs beyond what loading a folder needs.
func (m *metadata) check(root findings.Mapping) {
	if m.readme == "" {
		root.Get("readme").Report(ruleGalaxyBuild, "is required")
	}
	if len(m.Authors) == 0 {
		root.Get("authors").Report(ruleGalaxyBuild, "is required")
	}
	if _, err := semver.StrictNewVersion(m.Version); err != nil && m.Version != "" {
		root.Get("version").Report(ruleGalaxyBuild, "%s is not a semantic version such as 1.2.0", findings.Quote(m.Version))
	}
	if len(m.buildIgnore) > maxPatterns {
		root.Get("build_ignore").Report(ruleGalaxyBuild, "has more than %d patterns", maxPatterns)
	}
	for _, pattern := range m.buildIgnore {
		if len(pattern) > maxPatternBytes {
			root.Get("build_ignore").Report(ruleGalaxyBuild, "a pattern is longer than %d characters", maxPatternBytes)
		}
	}
	if manifest := root.Get("manifest"); manifest.Present() {
		manifest.Report(ruleGalaxyBuild, "manifest directives are not supported; use build_ignore")
	}
}
