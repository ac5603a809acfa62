package adopt

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Write prints a plan for an administrator.
func (p Plan) Write(out io.Writer) error {
	w := &writer{to: out}
	w.collections(p)
	w.resources(p)
	w.list("Removed, and kept in the backup:", titles(p.Remove))
	var changes []string
	for _, claim := range p.Claims {
		changes = append(changes, fmt.Sprintf("CRD %s: belongs to collection %s of namespace %s", claim.Live.Name, claim.ID, claim.Namespace))
	}
	for _, change := range p.Changes {
		changes = append(changes, title(change.Live)+": "+change.What)
	}
	for _, d := range p.Definitions {
		line := "CRD " + d.Live.Name + ": as Collection Operator installs it"
		if rewrites := d.Rewrites(); len(rewrites) > 0 {
			line += ", after its objects are written once, so that none is stored in version " + strings.Join(rewrites, ", ")
		}
		changes = append(changes, line)
	}
	w.list("Changed:", changes)
	w.list("To know and to do:", p.Notices)
	w.list("Problems:", p.Problems)
	return w.err
}

// writer remembers the first error.
type writer struct {
	to  io.Writer
	err error
}

func (w *writer) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.to, format, args...)
	}
}

func (w *writer) list(heading string, lines []string) {
	if len(lines) == 0 {
		return
	}
	w.printf("\n%s\n", heading)
	for _, line := range lines {
		w.printf("- %s\n", printable.Escape(line))
	}
}

func (w *writer) collections(p Plan) {
	table := tabwriter.NewWriter(w.to, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "OPERATORCOLLECTION\tCOLLECTION\tVERSION\tKINDS\tARCHIVE")
	for _, c := range p.Collections {
		archive := cmp.Or(withoutQuery(c.URL), "missing")
		if c.Archive != nil && c.URL == "" {
			archive = c.Archive.Digest.String()
		}
		fmt.Fprintln(table, printable.Escape(fmt.Sprintf("%s/%s", c.Object.GetNamespace(), c.Object.GetName()))+"\t"+
			printable.Escape(c.ID.String())+"\t"+printable.Escape(cmp.Or(c.Version, "-"))+"\t"+fmt.Sprint(len(c.Kinds))+"\t"+printable.Escape(archive))
	}
	if err := table.Flush(); w.err == nil {
		w.err = err
	}
}

func (w *writer) resources(p Plan) {
	var run, stay []string
	for _, r := range p.Resources {
		if r.Runs == "" {
			stay = append(stay, title(r.Object))
			continue
		}
		run = append(run, title(r.Object)+": "+r.Runs)
	}
	slices.Sort(stay)
	w.list(fmt.Sprintf("Resources whose playbook does not run (%d):", len(stay)), stay)
	slices.Sort(run)
	w.list(fmt.Sprintf("Resources whose playbook runs once their operator starts (%d):", len(run)), run)
}

// Next are the commands that follow adoption, in their order.
func (p Plan) Next(folder string) []string {
	steps := []string{"install Collection Operator: make deploy, or helm install with --take-ownership"}
	for _, c := range p.Collections {
		if c.Archive != nil && c.URL == "" {
			steps = append(steps, fmt.Sprintf("kubectl collection push %s %s -n %s   # %s", shellWord(c.Archive.File), c.Object.GetName(), c.Object.GetNamespace(), c.Archive.Digest))
		}
	}
	folder = shellWord(folder)
	return append(steps, "kubectl collection status -A, and kubectl collection doctor -A",
		"kubectl collection adopt --backup "+folder+" --back, if it is not as you want it, or",
		"kubectl collection adopt --backup "+folder+" --finish, after which there is no way back")
}
