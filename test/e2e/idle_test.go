//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// idleTime has every poll of the manager in it but that of endpoints, every five minutes: E2E_IDLE=6m has that, too.
func idleTime() time.Duration {
	GinkgoHelper()
	text := os.Getenv("E2E_IDLE")
	if text == "" {
		return time.Minute
	}
	idle, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred(), "E2E_IDLE")
	return idle
}

// idleWrites are the writes of some service accounts, of which an idle one has none but Leases.
type idleWrites struct {
	log *AuditLog
	// accounts are the beginnings of the users' names.
	accounts          []string
	leases, everybody int
	others            []string
}

// watch returns all writes so far that an idle cluster has no reason for.
func (w *idleWrites) watch() []string {
	GinkgoHelper()
	for _, event := range w.log.Next() {
		w.everybody++
		switch {
		case !slices.ContainsFunc(w.accounts, func(account string) bool { return strings.HasPrefix(event.User.Username, account) }):
		case event.ObjectRef.Resource == "leases":
			w.leases++
		case strings.HasSuffix(event.ObjectRef.Resource, "reviews"):
			// A question in the form of a create: nothing is stored.
		default:
			w.others = append(w.others, fmt.Sprintf("%s %s %s/%s %s/%s", event.User.Username, event.Verb,
				event.ObjectRef.Resource, event.ObjectRef.Subresource, event.ObjectRef.Namespace, event.ObjectRef.Name))
		}
	}
	return w.others
}

// settle waits until the accounts have written nothing for ten seconds, and begins anew: what a run has learned is written to its endpoint
// a moment after the run has ended.
func (w *idleWrites) settle(ctx context.Context) {
	GinkgoHelper()
	known, last := 0, time.Now()
	Eventually(ctx, func() time.Duration {
		if seen := len(w.watch()); seen > known {
			known, last = seen, time.Now()
		}
		return time.Since(last)
	}).WithPolling(time.Second).Should(BeNumerically(">", 10*time.Second))
	w.leases, w.everybody, w.others = 0, 0, nil
}

// expectIdle watches the cluster's writes for a while and expects none of the manager's and an operator's.
func expectIdle(ctx context.Context, idle time.Duration, operatorAccount string) {
	GinkgoHelper()
	auditLog := OpenAuditLog(filepath.Join(projectDir, ".devcluster", "audit.log"))
	writes := &idleWrites{log: auditLog, accounts: []string{"system:serviceaccount:" + ManagerNamespace + ":", operatorAccount}}
	writes.settle(ctx)
	Consistently(ctx, writes.watch).WithTimeout(idle).WithPolling(5 * time.Second).Should(BeEmpty())
	AddReportEntry("idle", fmt.Sprintf("in %s: %d writes of Leases and %d other writes by manager and runtime, %d writes by everybody",
		idle, writes.leases, len(writes.others), writes.everybody), ReportEntryVisibilityAlways)
	Expect(writes.leases).To(BeNumerically(">", 0), "the audit log does not show the manager at all")
}
