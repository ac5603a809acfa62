package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// requestsPerObject is how many requests an installation may take for each object that is written, reads and dry runs included.
const requestsPerObject = 6

var _ = Describe("The manager's requests", func() {
	It("are few for each object of an installation, and none at rest", func(ctx context.Context) {
		s := newScale(ctx)
		s.calm = 2 * time.Second
		s.setStarts(ctx, true)
		namespace := newNamespace(ctx)
		var collections []client.Object
		for i := range 3 {
			collections = append(collections, newCollection(namespace, fmt.Sprintf("scale-%d", i), pinned(threeKinds(i, "1.0.0"))))
		}
		s.settle(ctx)

		s.audit.Requests()
		requests := NewRequests()
		Create(ctx, collections...)
		Expect(s.allReady(ctx, collections...)).To(Succeed())
		s.settle(ctx)
		requests.Add(managerUser, s.audit.Requests())
		AddReportEntry("requests", fmt.Sprintf("%d for %d objects, %d writes", requests.Total(), len(requests.Written), requests.Writes()), ReportEntryVisibilityAlways)
		// OperatorCollection, its SubOperatorConfig, and what is installed in its namespace besides three CRDs.
		Expect(len(requests.Written)).To(BeNumerically(">=", len(collections)*10))
		Expect(requests.Total()).To(BeNumerically("<=", requestsPerObject*len(requests.Written)), "%v", requests.Counts)
		for name, writes := range requests.Written {
			if strings.HasPrefix(name, "deployments.") {
				Expect(writes).To(Equal(1), name)
			}
		}

		idle := NewRequests()
		Consistently(ctx, func() map[Request]int {
			idle.Add(managerUser, s.audit.Requests())
			return idle.Counts
		}).WithTimeout(3 * time.Second).Should(BeEmpty())
	})
})
