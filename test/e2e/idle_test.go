//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// auditEvent is what the stories read of an entry of the API server's audit log.
type auditEvent struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
}

// auditReader reads the audit log from where it was opened.
type auditReader struct {
	file   *os.File
	reader *bufio.Reader
	// partial is a line that the API server has not finished yet.
	partial string
}

func openAuditLog() *auditReader {
	GinkgoHelper()
	file, err := os.Open(filepath.Join(projectDir, ".devcluster", "audit.log"))
	Expect(err).NotTo(HaveOccurred(), "the development cluster's API server writes an audit log")
	_, err = file.Seek(0, io.SeekEnd)
	Expect(err).NotTo(HaveOccurred())
	return &auditReader{file: file, reader: bufio.NewReader(file)}
}

// next returns the entries since the last call.
func (r *auditReader) next() []auditEvent {
	GinkgoHelper()
	var events []auditEvent
	for {
		line, err := r.reader.ReadString('\n')
		r.partial += line
		if errors.Is(err, io.EOF) {
			return events
		}
		Expect(err).NotTo(HaveOccurred())
		var event auditEvent
		Expect(json.Unmarshal([]byte(r.partial), &event)).To(Succeed())
		r.partial = ""
		events = append(events, event)
	}
}

func idleTime() time.Duration {
	GinkgoHelper()
	text := os.Getenv("E2E_IDLE")
	if text == "" {
		return 5 * time.Minute
	}
	idle, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred(), "E2E_IDLE")
	return idle
}

// idleWrites are the writes of some service accounts, of which an idle one has none but Leases.
type idleWrites struct {
	log *auditReader
	// accounts are the beginnings of the users' names.
	accounts          []string
	leases, everybody int
	others            []string
}

// watch returns all writes so far that an idle cluster has no reason for.
func (w *idleWrites) watch() []string {
	GinkgoHelper()
	for _, event := range w.log.next() {
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

// expectIdle watches the cluster's writes for a while and expects none of the manager's and an operator's.
func expectIdle(ctx context.Context, idle time.Duration, operatorAccount string) {
	GinkgoHelper()
	writes := &idleWrites{log: openAuditLog(), accounts: []string{"system:serviceaccount:" + managerNamespace + ":", operatorAccount}}
	DeferCleanup(writes.log.file.Close)
	Consistently(writes.watch).WithContext(ctx).WithTimeout(idle).WithPolling(5 * time.Second).Should(BeEmpty())
	AddReportEntry("idle", fmt.Sprintf("in %s: %d writes of Leases and %d other writes by manager and runtime, %d writes by everybody",
		idle, writes.leases, len(writes.others), writes.everybody), ReportEntryVisibilityAlways)
	Expect(writes.leases).To(BeNumerically(">", 0), "the audit log does not show the manager at all")
}

func idleStories() {
	It("writes nothing but Leases", func(ctx context.Context) {
		expectIdle(ctx, idleTime(), "system:serviceaccount:"+namespace+":"+operator.Name)
	}, NodeTimeout(time.Hour))
}
