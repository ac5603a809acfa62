package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Ref names an object.
type Ref struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns the form in which kubectl takes an object, and its namespace.
func (r Ref) String() string {
	text := strings.ToLower(r.Kind) + "/" + r.Name
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

func compareRefs(a, b Ref) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

func ref(kind schema.GroupKind, namespace, name string) Ref {
	return Ref{Kind: kind.Kind, Namespace: namespace, Name: name}
}

// Finding is a cause: something that a user has to change, or that runs wait for.
type Finding struct {
	// Check that found it.
	Check    string            `json:"check"`
	Severity findings.Severity `json:"severity"`
	Object   Ref               `json:"object"`
	// Reason is that of the object's condition where it has one.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Next is the next step.
	Next string `json:"next"`
	// Affected is the number of objects that do not work because of it, and Affects names the first of them.
	Affected int   `json:"affected"`
	Affects  []Ref `json:"affects,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	ServerVersion string    `json:"serverVersion"`
	Managers      []Manager `json:"managers"`
	// Objects is the number of objects that were looked at.
	Objects  int       `json:"objects"`
	Findings []Finding `json:"findings"`
	// Failed is the number of requests that the API server did not answer as it should. What may not be read is none.
	Failed int `json:"failed"`
	// Unread has a sentence for all that could not be read: findings may be missing.
	Unread []string `json:"unread,omitempty"`
}

// Manager is a manager of the cluster.
type Manager struct {
	Ref
	Image string `json:"image"`
	Ready int32  `json:"ready"`
	Want  int32  `json:"want"`
}

const (
	// maxLine is the number of bytes of a message in text. JSON has all.
	maxLine = 400
	// maxPrinted is the number of findings of a check that are printed.
	maxPrinted = 20
	// maxPrintedAffected is the number of affected objects that are named in a line.
	maxPrintedAffected = 5
)

// Print writes the report as text. severity returns the text of a severity, which may be coloured.
func (r *Report) Print(w io.Writer, severity func(findings.Severity) string) error {
	var out bytes.Buffer
	printed, left := map[string]int{}, map[string]int{}
	var checks []string
	for i := range r.Findings {
		f := &r.Findings[i]
		if printed[f.Check]++; printed[f.Check] > maxPrinted {
			if left[f.Check]++; left[f.Check] == 1 {
				checks = append(checks, f.Check)
			}
			continue
		}
		fmt.Fprintf(&out, "%s %s: %s\n", severity(f.Severity), printable.Escape(f.Object.String()), printable.Escape(f.Reason))
		if f.Message != "" {
			first, _, _ := strings.Cut(f.Message, "\n")
			fmt.Fprintf(&out, "  %s\n", printable.Escape(printable.Cut(first, maxLine)))
		}
		fmt.Fprintf(&out, "  next: %s\n", printable.Escape(f.Next))
		if f.Affected > 0 {
			fmt.Fprintf(&out, "  affects: %s\n", printable.Escape(f.affected()))
		}
	}
	for _, check := range checks {
		fmt.Fprintf(&out, "and %s of check %s: -o json shows all\n", findings.Plural(left[check], "finding"), check)
	}
	_, err := w.Write(out.Bytes())
	return err
}

// affected names the first of the objects that a finding affects.
func (f *Finding) affected() string {
	var names []string
	for _, object := range f.Affects[:min(len(f.Affects), maxPrintedAffected)] {
		names = append(names, object.String())
	}
	text := strings.Join(names, ", ")
	if more := f.Affected - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Summary returns a line with the number of findings.
func (r *Report) Summary() string {
	return fmt.Sprintf("%s looked at, %s", findings.Plural(r.Objects, "object"), findings.Plural(len(r.Findings), "finding"))
}
