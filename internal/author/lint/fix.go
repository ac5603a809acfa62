package lint

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Fixed is a file that [Fix] corrects. Old is what the corrections were made of.
type Fixed struct {
	File     string
	Old, New []byte
}

// Fix corrects what has exactly one right answer in an author's folder: the problems that the folder's [Settings] show and that have a
// [findings.Fix]. It returns the files that change, by name; the folder stays as it is. Each correction is judged alone: it is left out unless
// its problem is gone with it, and no error and no warning is new, hidden or not. A folder with the files of a built archive is refused.
func Fix(folder fs.FS) ([]Fixed, error) {
	for _, name := range []string{model.ManifestFile, model.FilesFile} {
		if _, err := fs.Stat(folder, name); !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.New("the folder holds " + name + ", so it is an unpacked archive, whose checksums would be wrong: correct the folder that it was built of")
		}
	}
	content, _, err := contentOf(folder)
	if err != nil {
		return nil, err
	}
	f := &fixer{folder: folder, content: content, files: map[string][]byte{}, left: map[candidate]bool{}}
	if err := f.read(); err != nil {
		return nil, err
	}
	if err := f.correct(); err != nil {
		return nil, err
	}
	return f.fixed(), nil
}

// maxChecks bounds how often a folder is checked.
const maxChecks = 300

// fixer corrects a folder in memory.
type fixer struct {
	folder, content fs.FS
	// old are the files with problems that have a fix, as they were read once; files are these with the corrections so far.
	old, files map[string][]byte
	// problems are those of the folder with files, shown those that its settings do not hide.
	problems, shown findings.Problems
	// left are the corrections that were tried and left out since the last one that was made.
	left map[candidate]bool
}

// candidate is a correction of a file.
type candidate struct {
	file, rule string
	fix        findings.Fix
}

// read reads the files that can be corrected, and checks the folder with what it read.
func (f *fixer) read() error {
	if err := f.check(); err != nil {
		return err
	}
	for _, p := range f.shown.Fixable() {
		if _, known := f.files[p.File]; known || throughLink(f.folder, p.File) {
			continue
		}
		content, err := fs.ReadFile(f.folder, p.File)
		if err != nil {
			return err
		}
		f.files[p.File] = content
	}
	f.old = maps.Clone(f.files)
	return f.check()
}

// throughLink reports whether a file is a link, or in a folder that is one, or cannot be found: it may be another file, too.
func throughLink(folder fs.FS, name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if info, err := fs.Lstat(folder, name); err != nil || info.Mode()&fs.ModeSymlink != 0 {
			return true
		}
	}
	return false
}

func (f *fixer) check() error {
	overlay := func(fsys fs.FS) fs.FS { return archive.Overlay{FS: fsys, Files: f.files} }
	problems, settings, err := checkWithSettings(overlay(f.content), overlay(f.folder))
	f.problems = problems
	f.shown, _ = settings.Apply(problems)
	return err
}

// correct makes the corrections one after the other, and tries those that were left out again after each that is made.
func (f *fixer) correct() error {
	for range maxChecks {
		candidates := f.candidates()
		if len(candidates) == 0 {
			return nil
		}
		corrected, err := f.try(candidates[0])
		switch {
		case err != nil:
			return err
		case corrected:
			clear(f.left)
		default:
			f.left[candidates[0]] = true
		}
	}
	return nil
}

// candidates are the corrections of the problems that were not left out, those of the settings first, since they say which others the author
// wants. Where two contradict each other there is none.
func (f *fixer) candidates() []candidate {
	type place struct {
		file         string
		line, column int
	}
	at := map[place]candidate{}
	for _, p := range f.shown.Fixable() {
		c, here := candidate{p.File, p.Rule, p.Fix}, place{p.File, p.Fix.Line, p.Fix.Column}
		if other, taken := at[here]; taken && other.fix != c.fix {
			c = candidate{}
		}
		at[here] = c
	}
	found := slices.DeleteFunc(slices.Collect(maps.Values(at)), func(c candidate) bool { return f.old[c.file] == nil || f.left[c] })
	ofSettings := func(c candidate) int {
		if c.file == SettingsFile {
			return 0
		}
		return 1
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(ofSettings(a), ofSettings(b)), cmp.Compare(a.file, b.file),
			cmp.Compare(a.fix.Line, b.fix.Line), cmp.Compare(a.fix.Column, b.fix.Column))
	})
	return found
}

// try makes a correction, and takes it back if it is not certain or has not helped.
func (f *fixer) try(c candidate) (bool, error) {
	content := f.files[c.file]
	fixed, ok := c.fix.Apply(content)
	if !ok {
		return false, nil
	}
	problems, shown := f.problems, f.shown
	f.files[c.file] = fixed
	err := f.check()
	if err == nil && better(problems, f.problems, c) {
		return true, nil
	}
	f.files[c.file], f.problems, f.shown = content, problems, shown
	return false, err
}

// broken is a rule and a file that breaks it.
type broken struct{ rule, file string }

func countBroken(problems findings.Problems) map[broken]int {
	count := map[broken]int{}
	for _, p := range problems {
		count[broken{p.Rule, p.File}]++
	}
	return count
}

// better reports whether a correction has removed its problem, and not led to a new error or warning. Of a file that could not be read before
// nothing was known: there only its problem counts, in all other files the others too.
func better(before, after findings.Problems, c candidate) bool {
	was, is := countBroken(before), countBroken(after)
	for _, p := range after.Findings() {
		if key := (broken{p.Rule, p.File}); is[key] > was[key] && (!c.fix.Quote || p.File != c.file) {
			return false
		}
	}
	key := broken{c.rule, c.file}
	return is[key] < was[key]
}

// fixed are the corrected files by name, as they were and as they should be.
func (f *fixer) fixed() []Fixed {
	var fixed []Fixed
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		if !bytes.Equal(f.old[name], f.files[name]) {
			fixed = append(fixed, Fixed{File: name, Old: f.old[name], New: f.files[name]})
		}
	}
	return fixed
}
