package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/diff"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/explain"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

func diffCommand() *cobra.Command {
	var output string
	var live bool
	command := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what an upgrade changes",
		Long: `Show what changes when the archive or folder NEW replaces OLD: version, kinds, fields, playbooks, permissions,
dependencies. Changes that can break something begin with an exclamation mark: custom resources may have to change, or the
cluster refuses the upgrade. Findings of lint that are new (+) or gone (-) come last.

With --live, the custom resources in a cluster are checked too: those that block the upgrade begin with an exclamation mark. You
need the right to list them. Those of the namespace of the context are read, or those of --namespace, or of all with -A.

Exit codes are those of ` + "`kubectl diff`" + `: 0 for no differences, 1 for differences, more if something went wrong.`,
		Example: `  kubectl collection diff example-zos_files-1.0.0.tar.gz ./zos-files

  # Which custom resources does it break?
  kubectl collection diff old.tar.gz new.tar.gz --live -A

  # Fail if something can break
  test $(kubectl collection diff old.tar.gz new.tar.gz --output json | jq .breaking) = 0`,
		Args: kit.Exactly(2),
	}
	connection := kube.NewConnection(command)
	connection.AddAllNamespaces(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if !live && (cmd.Flags().Changed("namespace") || connection.AllNamespaces) {
			return errors.New("--namespace and --all-namespaces need --live")
		}
		report, err := compare(cmd, args[0], args[1])
		if err != nil {
			return err
		}
		if live {
			if err := report.evaluate(cmd.Context(), connection); err != nil {
				return err
			}
		}
		return report.print(cmd.OutOrStdout(), output)
	}
	command.Flags().BoolVar(&live, "live", false, "check the custom resources in a cluster too")
	kit.AddOutput(command, &output, "text, or json: one object", "text", "json")
	return command
}

// diffReport is what diff prints as JSON.
type diffReport struct {
	Old      diffSide      `json:"old"`
	New      diffSide      `json:"new"`
	Breaking int           `json:"breaking"`
	Changes  []diff.Change `json:"changes"`
	// Findings are those of lint that one side has and the other has not.
	Findings diffFindings `json:"findings"`
	Live     *LiveReport  `json:"live,omitempty"`

	was, is *model.Collection
}

type diffFindings struct {
	New  []findings.Finding `json:"new"`
	Gone []findings.Finding `json:"gone"`
}

func compareFindings(was, is *model.Collection) diffFindings {
	return diffFindings{New: is.Problems.Without(was.Problems).Listed(is.Name), Gone: was.Problems.Without(is.Problems).Listed(was.Name)}
}

func (f diffFindings) text() string {
	p := &explain.Page{}
	if len(f.New)+len(f.Gone) == 0 {
		return ""
	}
	p.Title("Findings")
	p.Findings(2, "+", f.New)
	p.Findings(2, "-", f.Gone)
	return "\n" + p.String()
}

type diffSide struct {
	Domain  string        `json:"domain"`
	Name    string        `json:"name"`
	Version string        `json:"version"`
	Digest  digest.Digest `json:"digest"`
}

func compare(cmd *cobra.Command, was, is string) (*diffReport, error) {
	oldSide, oldSource, err := loadSide(cmd, was)
	if err != nil {
		return nil, err
	}
	newSide, newSource, err := loadSide(cmd, is)
	if err != nil {
		return nil, err
	}
	report := &diffReport{Old: identify(oldSource), New: identify(newSource), Changes: diff.Compare(oldSide, newSide),
		Findings: compareFindings(oldSide.Collection, newSide.Collection), was: oldSide.Collection, is: newSide.Collection}
	report.Breaking = diff.Breaking(report.Changes)
	if report.Changes == nil {
		report.Changes = []diff.Change{} // In JSON it is a list in any case.
	}
	return report, nil
}

// evaluate adds what the change means for the custom resources of a cluster.
func (r *diffReport) evaluate(ctx context.Context, connection *kube.Connection) error {
	if r.was.ID() != r.is.ID() {
		return fmt.Errorf("%s and %s are different collections: one does not upgrade the other", r.was.ID(), r.is.ID())
	}
	c, err := connection.Connect()
	if err != nil {
		return err
	}
	r.Live, err = EvaluateLive(ctx, c, r.was, r.is, []string{c.Namespace})
	return err
}

func identify(s *Source) diffSide {
	c := s.Collection
	return diffSide{Domain: c.Domain, Name: c.Name, Version: c.Version.Original(), Digest: s.Digest}
}

// loadSide reads a folder or an archive with the checksums of its files. One that a cluster refuses is a failure here:
// the exit code of findings means that there are differences.
func loadSide(cmd *cobra.Command, path string) (diff.Side, *Source, error) {
	loaded, err := LoadSource(path)
	if err != nil {
		if err = Refused(cmd, path, err); errors.Is(err, kit.ErrFindings) {
			err = fmt.Errorf("%s cannot be compared", path)
		}
		return diff.Side{}, nil, err
	}
	sums, err := checksums(loaded.files)
	return diff.Side{Collection: loaded.Collection, Files: sums}, loaded, err
}

func (r *diffReport) print(w io.Writer, output string) error {
	if output == "json" {
		if err := kit.EncodeJSON(w, r); err != nil {
			return err
		}
	} else if err := r.printText(w); err != nil {
		return err
	}
	if len(r.Changes) > 0 || r.Live != nil && r.Live.Blocked > 0 {
		return kit.ErrFindings
	}
	return nil
}

func (r *diffReport) printText(w io.Writer) error {
	if _, err := fmt.Fprint(w, diff.Report(r.Changes)+r.Findings.text()); err != nil || r.Live == nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return r.Live.Print(w)
}

// checksums are, for each file of an archive by path, whether mode and content are the same. A link to a file is like that
// file: ansible-galaxy keeps links, and build follows them.
func checksums(files *archive.Files) (map[string]string, error) {
	sums := map[string]string{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := files.Stat(name)
		if err != nil {
			return err
		}
		if sum, isFile := files.SHA256(name); isFile {
			sums[name] = fmt.Sprintf("%s %x", info.Mode(), sum)
			return nil
		}
		target, err := files.ReadLink(name)
		sums[name] = "link " + target
		return err
	})
	return sums, err
}
