package lint

import (
	"cmp"
	"io/fs"
	"maps"
	"slices"

	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/findings"
)

// Fixed is a file that [Fix] corrects.
type Fixed struct {
	File     string
	Old, New []byte
}

// Fix corrects what has exactly one right answer in an author's folder: the problems that the folder's [Settings] show and that have a
// [findings.Fix]. It returns the files that change, by name; the folder stays as it is. A correction is left out unless its problem is
// gone with it, and no error and no warning is new.
func Fix(folder fs.FS) ([]Fixed, error) {
	content, _, err := contentOf(folder)
	if err != nil {
		return nil, err
	}
	f := &fixer{folder: folder, content: content, files: map[string][]byte{}, left: map[candidate]bool{}}
	if f.problems, err = f.check(); err != nil {
		return nil, err
	}
	for range maxFixes {
		corrected, err := f.correct()
		if err != nil {
			return nil, err
		}
		if !corrected {
			break
		}
	}
	return f.fixed()
}

// maxFixes bounds how often a folder is checked.
const maxFixes = 300

// fixer corrects a folder in memory.
type fixer struct {
	folder, content fs.FS
	// files are those that are corrected so far, problems what is shown of the folder with them.
	files    map[string][]byte
	problems findings.Problems
	// left are the corrections that were tried and left out.
	left map[candidate]bool
}

// candidate is a correction of a file.
type candidate struct {
	file, rule string
	fix        findings.Fix
}

func (f *fixer) check() (findings.Problems, error) {
	overlay := func(fsys fs.FS) fs.FS { return archive.Overlay{FS: fsys, Files: f.files} }
	problems, settings, err := checkWithSettings(overlay(f.content), overlay(f.folder))
	shown, _ := settings.Apply(problems)
	return shown, err
}

// correct makes all corrections that can be made at once, or else the first that can be made alone.
func (f *fixer) correct() (bool, error) {
	candidates := f.candidates()
	if len(candidates) > 1 {
		if corrected, err := f.try(candidates...); corrected || err != nil {
			return corrected, err
		}
	}
	for _, c := range candidates {
		corrected, err := f.try(c)
		if corrected || err != nil {
			return corrected, err
		}
		f.left[c] = true
	}
	return false, nil
}

// candidates are the corrections of the problems, from the last of a file to the first, so that none moves another one. Where two
// contradict each other there is none.
func (f *fixer) candidates() []candidate {
	type place struct {
		file         string
		line, column int
	}
	at := map[place]candidate{}
	for _, p := range f.problems.Fixable() {
		c, here := candidate{p.File, p.Rule, p.Fix}, place{p.File, p.Fix.Line, p.Fix.Column}
		if other, taken := at[here]; taken && other.fix != c.fix {
			c = candidate{}
		}
		at[here] = c
	}
	found := slices.DeleteFunc(slices.Collect(maps.Values(at)), func(c candidate) bool { return c.file == "" || f.left[c] })
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(b.fix.Line, a.fix.Line), cmp.Compare(b.fix.Column, a.fix.Column))
	})
	return found
}

// try makes corrections, and takes them back if one of them is not certain or has not helped.
func (f *fixer) try(candidates ...candidate) (bool, error) {
	before, problems := maps.Clone(f.files), f.problems
	takeBack := func(err error) (bool, error) {
		f.files, f.problems = before, problems
		return false, err
	}
	for _, c := range candidates {
		content, err := fs.ReadFile(archive.Overlay{FS: f.folder, Files: f.files}, c.file)
		if err != nil {
			return takeBack(err)
		}
		fixed, ok := c.fix.Apply(content)
		if !ok {
			return takeBack(nil)
		}
		f.files[c.file] = fixed
	}
	var err error
	if f.problems, err = f.check(); err != nil || !better(problems, f.problems, candidates) {
		return takeBack(err)
	}
	return true, nil
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

// better reports whether each correction has removed a problem, and none has led to a new error or warning. Of a file that could not be
// read before nothing was known: all that counts is that it can be read.
func better(before, after findings.Problems, candidates []candidate) bool {
	was, is := countBroken(before), countBroken(after)
	readable := false
	for _, c := range candidates {
		is[broken{c.rule, c.file}]++
		readable = readable || c.fix.Quote
	}
	for _, p := range after.Findings() {
		if key := (broken{p.Rule, p.File}); !readable && is[key] > was[key] {
			return false
		}
	}
	for _, c := range candidates {
		if key := (broken{c.rule, c.file}); is[key] > was[key] {
			return false
		}
	}
	return true
}

// fixed are the corrected files by name, as they are and as they should be.
func (f *fixer) fixed() ([]Fixed, error) {
	var fixed []Fixed
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		old, err := fs.ReadFile(f.folder, name)
		if err != nil {
			return nil, err
		}
		fixed = append(fixed, Fixed{File: name, Old: old, New: f.files[name]})
	}
	return fixed, nil
}
