package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// profiledFunctions is how many functions a profile names.
const profiledFunctions = 40

var _ = Describe("Scale in profiles", Serial, Label("scale"), func() {
	It("shows where an installation spends time and memory", func(ctx context.Context) {
		count := size("BENCH_PROFILE")
		p := &profiler{address: freeAddress(), dir: GinkgoT().TempDir()}
		s := newScale(ctx, "--pprof-bind-address="+p.address)
		s.setStarts(ctx, true)
		collections := s.collections(ctx, count)
		profiling, stop := context.WithCancel(ctx)
		finished := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(finished)
			for profiling.Err() == nil {
				p.fetch(ctx, "cpu", "profile?seconds=5")
			}
		}()
		create(ctx, collections)
		Expect(s.allReady(ctx, collections...)).To(Succeed())
		stop()
		<-finished
		p.fetch(ctx, "heap", "heap?gc=1")
		p.fetch(ctx, "allocs", "allocs")
		p.save(ctx, fmt.Sprintf("profile-cpu-%d.txt", count), "cpu")
		p.save(ctx, fmt.Sprintf("profile-heap-%d.txt", count), "heap", "-sample_index=inuse_space")
		p.save(ctx, fmt.Sprintf("profile-allocs-%d.txt", count), "allocs", "-sample_index=alloc_space")
	}, NodeTimeout(30*time.Minute))
})

// profiler collects profiles of the manager.
type profiler struct {
	address, dir string
	count        int
}

// fetch stores a profile. Those of the same kind are added up.
func (p *profiler) fetch(ctx context.Context, kind, path string) {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/debug/pprof/"+path, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	p.count++
	Expect(os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("%s-%d", kind, p.count)), content, 0o600)).To(Succeed())
}

// save writes what go tool pprof says of the profiles of a kind to BENCH_OUTPUT.
func (p *profiler) save(ctx context.Context, name, kind string, flags ...string) {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(p.dir, kind+"-*"))
	Expect(err).NotTo(HaveOccurred())
	args := append([]string{"tool", "pprof", "-top", "-cum", fmt.Sprintf("-nodecount=%d", profiledFunctions)}, flags...)
	text := Run(ctx, "go", append(append(args, theManager.binary), files...)...)
	// The first lines name the binary and times.
	if at := strings.Index(text, "Showing nodes"); at > 0 {
		text = text[at:]
	}
	AddReportEntry(name, text, ReportEntryVisibilityAlways)
	if folder := os.Getenv("BENCH_OUTPUT"); folder != "" {
		Expect(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644)).To(Succeed())
	}
}
