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

func idleStories() {
	It("writes nothing but Leases", func(ctx context.Context) {
		accounts := []string{
			"system:serviceaccount:" + managerNamespace + ":",
			"system:serviceaccount:" + namespace + ":" + operator.Name,
		}
		log := openAuditLog()
		DeferCleanup(log.file.Close)
		leases, others, everybody := 0, []string{}, 0
		watch := func() []string {
			for _, event := range log.next() {
				everybody++
				switch {
				case !strings.HasPrefix(event.User.Username, accounts[0]) && event.User.Username != accounts[1]:
				case event.ObjectRef.Resource == "leases":
					leases++
				case strings.HasSuffix(event.ObjectRef.Resource, "reviews"):
					// A question in the form of a create: nothing is stored.
				default:
					others = append(others, fmt.Sprintf("%s %s %s/%s %s/%s", event.User.Username, event.Verb,
						event.ObjectRef.Resource, event.ObjectRef.Subresource, event.ObjectRef.Namespace, event.ObjectRef.Name))
				}
			}
			return others
		}
		idle := idleTime()
		Consistently(watch).WithContext(ctx).WithTimeout(idle).WithPolling(5 * time.Second).Should(BeEmpty())
		AddReportEntry("idle", fmt.Sprintf("in %s: %d writes of Leases and %d other writes by manager and runtime, %d writes by everybody",
			idle, leases, len(others), everybody), ReportEntryVisibilityAlways)
		Expect(leases).To(BeNumerically(">", 0), "the audit log does not show the manager at all")
	}, NodeTimeout(time.Hour))
}
