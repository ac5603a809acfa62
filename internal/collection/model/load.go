package model

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

var configFiles = []string{"operator-config.yml", "operator-config.yaml"}

// ConfigFiles returns the names that an operator-config may have at the root of a collection, which has one of them.
func ConfigFiles() []string { return slices.Clone(configFiles) }

// Keep says which files of an archive [Load] reads. Of all others it only needs to know that they exist, and their
// checksums. It is for [archive.Read].
func Keep(name string, _ int64) bool {
	return name == ManifestFile || name == FilesFile || name == GalaxyFile || name == runtimeFile ||
		slices.Contains(configFiles, name) || slices.Contains(requirementsFiles, name) || path.Base(name) == pythonFile
}

// Load reads the collection whose root is fsys: an unpacked archive or an author's folder. It sees all of a folder, also
// what is left out of the archive that is built from it.
//
// It checks every rule of [Rules]. If the collection breaks one that the cluster refuses, the error is of type
// [Problems] and holds all that is wrong at once. Other problems do not keep it from loading: what does not
// fit is left out of the model, and Problems of the collection says so. Any other error means that fsys could not be
// read, and trying again may help.
func Load(fsys fs.FS) (*Collection, error) {
	c, problems, err := Read(fsys)
	if err != nil {
		return nil, err
	}
	if len(problems.Refused()) > 0 {
		return nil, problems
	}
	c.Problems = problems
	return c, nil
}

// Read is Load for a check that reports everything at once: it also returns a collection that the cluster refuses, without
// what is wrong, and its problems apart.
func Read(fsys fs.FS) (*Collection, findings.Problems, error) {
	l := newLoader(fsys)
	c, err := l.load()
	if err != nil {
		return nil, nil, fmt.Errorf("read the collection: %w", err)
	}
	l.Problems.Sort()
	return c, l.Problems, nil
}

func (l *loader) load() (*Collection, error) {
	c := &Collection{}
	if inside, err := l.reportFolder(); inside || err != nil {
		return c, err
	}
	steps := []func(*loader, *Collection) error{
		(*loader).readGalaxy, (*loader).checkFiles, (*loader).readConfig, (*loader).readRuntime, readCollectionRequirements, readPythonRequirements,
		(*loader).checkPlaybooks, (*loader).checkMigrationPlaybook, (*loader).checkAnsibleConfig,
	}
	for _, step := range steps {
		if err := step(l, c); err != nil {
			return nil, err
		}
	}
	for _, check := range checks {
		check(l, c)
	}
	return c, nil
}

// reportFolder reports a collection that is not at the root but in a folder, which is all that there is: a server of git repositories packs them
// like that. It reports this alone, since all else that is missing follows from it.
func (l *loader) reportFolder() (bool, error) {
	entries, err := fs.ReadDir(l.fsys, ".")
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		return false, err
	}
	folder := entries[0].Name()
	built, err := l.exists(path.Join(folder, ManifestFile))
	switch {
	case err != nil:
		return false, err
	case built:
		l.ReportFile(ManifestFile, RuleMissingGalaxy, "the collection is in the folder %q and not at the root: use the archive as kubectl collection build or Ansible Galaxy makes it", folder)
	default:
		l.ReportFile(ManifestFile, RuleMissingGalaxy, "everything is in the folder %q, as in the snapshot of a git repository, which is not a built collection: "+
			"build the archive from that folder with kubectl collection build", folder)
	}
	return true, nil
}

func (l *loader) readConfig(c *Collection) error {
	var found []string
	for _, name := range configFiles {
		exists, err := l.exists(name)
		if err != nil {
			return err
		}
		if exists {
			found = append(found, name)
		}
	}
	l.configFile = configFiles[0]
	switch len(found) {
	case 0:
		l.ReportFile(l.configFile, ruleMissingConfig, "the collection has neither %s at its root; is it an operator collection?", strings.Join(configFiles, " nor "))
		return nil
	case 2:
		l.ReportFile(l.configFile, ruleDuplicateConfig, "the collection has both %s; keep one", strings.Join(configFiles, " and "))
		return nil
	}
	l.configFile = found[0]
	content, err := l.readAtMost(l.configFile, maxConfigBytes)
	if err != nil || content == nil {
		return err
	}
	if doc, ok := l.ParseDocument(l.configFile, content); ok {
		l.readOperatorConfig(c, doc, content)
	}
	return nil
}

// checkPlaybooks reports playbooks that the collection does not hold.
func (l *loader) checkPlaybooks(c *Collection) error {
	for i, r := range c.Resources {
		for _, playbook := range []struct {
			key, name string
			rule      findings.Rule
		}{
			{"playbook", r.Playbook, ruleMissingPlaybook},
			{"finalizer", r.Finalizer, ruleMissingFinalizer},
		} {
			if playbook.name == "" {
				continue
			}
			at := l.At(l.configFile, fmt.Sprintf("resources[%d].%s", i, playbook.key))
			info, err := fs.Stat(l.fsys, playbook.name)
			switch {
			case IsAbsent(err):
				at.ReportFix(sameName(l.fsys, playbook.name), playbook.rule, "the collection holds no file %s", findings.Quote(playbook.name))
			case err != nil:
				return err
			case !info.Mode().IsRegular():
				at.Report(playbook.rule, "%s is not a file", findings.Quote(playbook.name))
			}
		}
	}
	return nil
}

// sameName is the only file whose name differs from that of a missing one in capitals or the ending .yml or .yaml alone, or "".
func sameName(fsys fs.FS, name string) string {
	bare := func(name string) string {
		return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), ".yml"), ".yaml")
	}
	entries, err := fs.ReadDir(fsys, path.Dir(name))
	if err != nil || len(entries) > maxListed {
		return ""
	}
	found := ""
	for _, entry := range entries {
		ending := path.Ext(entry.Name())
		if !entry.Type().IsRegular() || ending != ".yml" && ending != ".yaml" || bare(entry.Name()) != bare(path.Base(name)) {
			continue
		}
		if found != "" {
			return ""
		}
		found = path.Join(path.Dir(name), entry.Name())
	}
	return found
}

// maxListed bounds the folders in which another file is looked for.
const maxListed = 1000

// checkMigrationPlaybook ignores a migration playbook that the collection does not hold.
func (l *loader) checkMigrationPlaybook(c *Collection) error {
	if c.MigrationPlaybook == "" {
		return nil
	}
	info, err := fs.Stat(l.fsys, c.MigrationPlaybook)
	if err != nil && !IsAbsent(err) {
		return err
	}
	if err != nil || !info.Mode().IsRegular() {
		l.At(l.configFile, "migrationPlaybook").Report(ruleMigrationPlaybook, "the collection holds no file %s: it is ignored", findings.Quote(c.MigrationPlaybook))
		c.MigrationPlaybook = ""
	}
	return nil
}

// checkAnsibleConfig reports settings of Ansible that the author's machine honours and the runtime may not.
func (l *loader) checkAnsibleConfig(*Collection) error {
	exists, err := l.exists(ansibleConfigFile)
	if exists {
		l.ReportFile(ansibleConfigFile, ruleAnsibleConfig, "settings of Ansible do not belong into a collection; remove the file or add it to build_ignore")
	}
	return err
}
