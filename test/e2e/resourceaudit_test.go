//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// resourceAudit is what the API server's audit log tells about the custom resources in some namespaces since it was opened.
type resourceAudit struct {
	log        *AuditLog
	namespaces []string
	// runs are those of each NAMESPACE/NAME as their status last said, in the order of their first appearance.
	runs    map[string][]runstatus.Run
	deleted []string
}

// auditResources reads what is written from now on, until the container's specs end.
func auditResources(namespaces ...string) *resourceAudit {
	GinkgoHelper()
	return &resourceAudit{
		log: OpenAuditLog(filepath.Join(projectDir, ".devcluster", "audit.log")), namespaces: namespaces, runs: map[string][]runstatus.Run{},
	}
}

func (a *resourceAudit) read(g Gomega) {
	for _, event := range a.log.Next() {
		ref := event.ObjectRef
		stored := !event.DryRun() && event.ResponseStatus.Code < 300
		if ref.APIGroup != SharedGroup || !stored || !slices.Contains(a.namespaces, ref.Namespace) {
			continue
		}
		if strings.HasPrefix(event.Verb, "delete") {
			a.deleted = append(a.deleted, fmt.Sprintf("%s %s by %s", event.Verb, event.RequestURI, event.User.Username))
		}
		if ref.Subresource == "status" {
			var resource struct {
				Status runstatus.Status `json:"status"`
			}
			g.Expect(json.Unmarshal(event.ResponseObject, &resource)).To(Succeed(), event.RequestURI)
			a.add(ref.Namespace+"/"+ref.Name, resource.Status.LastRun)
		}
	}
}

func (a *resourceAudit) add(resource string, run *runstatus.Run) {
	if run == nil {
		return
	}
	index := slices.IndexFunc(a.runs[resource], func(known runstatus.Run) bool { return known.ID == run.ID })
	if index < 0 {
		a.runs[resource] = append(a.runs[resource], *run)
		return
	}
	a.runs[resource][index] = *run
}

// expect waits until each resource had successful runs with these versions of its collection and no other, no resource but
// some had a run that was not successful, and none was deleted.
func (a *resourceAudit) expect(ctx context.Context, want map[string][]string, failing ...string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		a.read(g)
		succeeded := map[string][]string{}
		for resource, runs := range a.runs {
			for _, run := range runs {
				if run.Outcome.Succeeded() {
					succeeded[resource] = append(succeeded[resource], run.Version)
				} else {
					g.Expect(failing).To(ContainElement(resource), "run %s was not successful: %s", run.ID, run.Outcome)
				}
			}
		}
		g.Expect(succeeded).To(Equal(want))
	}).Should(Succeed())
	for _, resource := range failing {
		Expect(len(a.runs[resource])).To(BeNumerically(">", len(want[resource])), "%s failed", resource)
	}
	Expect(a.deleted).To(BeEmpty())
}
