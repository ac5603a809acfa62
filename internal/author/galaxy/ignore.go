package galaxy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// ignoredAlways are patterns of what ansible-galaxy never puts into an archive; ignoredDirs are base names of folders.
var (
	ignoredAlways = []string{model.ManifestFile, model.FilesFile, model.GalaxyFile, "galaxy.yaml", ".git", "*.pyc", "*.retry", "tests/output"}
	ignoredDirs   = map[string]bool{"CVS": true, ".bzr": true, ".hg": true, ".git": true, ".svn": true, "__pycache__": true, ".tox": true}
)

// ignoreList says what of an author's folder does not go into the archive.
type ignoreList struct{ patterns []*regexp.Regexp }

func newIgnoreList(g metadata) ignoreList {
	own := []string{g.Namespace + "-" + g.Name + "-*.tar.gz"}
	return ignoreList{compilePatterns(slices.Concat(ignoredAlways, own, g.buildIgnore))}
}

// matches reports whether a file or folder is left out itself. What is below a folder that is left out goes with it.
func (l ignoreList) matches(name string, dir bool) bool {
	return dir && ignoredDirs[path.Base(name)] || slices.ContainsFunc(l.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// compilePatterns turns the shell patterns of build_ignore into regular expressions. They match a whole path, and
// unlike in [path.Match] a star matches slashes too and nothing is illegal: Python's fnmatch does it so.
func compilePatterns(patterns []string) []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(patterns))
	for i, pattern := range patterns {
		out[i] = regexp.MustCompile(`(?s)^` + shellPattern(pattern) + `$`)
	}
	return out
}

func shellPattern(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		case '[':
			class, length := shellClass(pattern[i:])
			b.WriteString(class)
			i += length - 1
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return b.String()
}

// shellClass converts the character class that pattern begins with and returns its length. A bracket that nothing
// closes stands for itself, and a class that means nothing to a regular expression (a range backwards) matches nothing.
func shellClass(pattern string) (class string, length int) {
	start := 1
	if strings.HasPrefix(pattern[1:], "!") {
		start++
	}
	end := start + 1
	for end < len(pattern) && pattern[end] != ']' {
		end++
	}
	if end >= len(pattern) {
		return `\[`, 1
	}
	set := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`, `~`, `\~`).Replace(pattern[start:end])
	class = "[" + set + "]"
	if start == 2 {
		class = "[^" + set + "]"
	}
	if _, err := regexp.Compile(class); err != nil {
		class = `[^\x00-\x{10FFFF}]`
	}
	return class, end + 1
}
