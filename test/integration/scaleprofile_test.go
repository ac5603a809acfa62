package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// profiledFunctions is how many functions a profile names.
const profiledFunctions = 40

var _ = Describe("Scale in profiles", Serial, Label("scale"), func() {
	It("shows where an installation spends time and memory", func(ctx context.Context) {
		count := size("BENCH_PROFILE")
		address := freeAddress()
		manager := &profiler{get: overHTTP(address), dir: GinkgoT().TempDir(), name: "profile", binary: theManager.binary}
		apiServer := &profiler{get: ofAPIServer(), dir: GinkgoT().TempDir(), name: "profile-apiserver"}
		s := newScale(ctx, "--pprof-bind-address="+address)
		s.setStarts(ctx, true)
		collections := s.collections(ctx, count)
		profiling, stop := context.WithCancel(ctx)
		var finished sync.WaitGroup
		for _, p := range []*profiler{manager, apiServer} {
			finished.Go(func() {
				defer GinkgoRecover()
				for profiling.Err() == nil {
					p.fetch(ctx, "cpu", "profile?seconds=5")
				}
			})
		}
		create(ctx, collections)
		Expect(s.allReady(ctx, collections...)).To(Succeed())
		stop()
		finished.Wait()
		manager.fetch(ctx, "heap", "heap?gc=1")
		manager.fetch(ctx, "allocs", "allocs")
		manager.save(ctx, "cpu", count)
		manager.save(ctx, "heap", count, "-sample_index=inuse_space")
		manager.save(ctx, "allocs", count, "-sample_index=alloc_space")
		apiServer.save(ctx, "cpu", count)
	})
})

// profiler collects profiles of a process.
type profiler struct {
	// get reads a path below /debug/pprof.
	get func(ctx context.Context, path string) ([]byte, error)
	// dir has what was read.
	dir string
	// name begins the names of files, and binary is the program, or empty if its profiles have symbols.
	name, binary string
	count        int
}

func overHTTP(address string) func(context.Context, string) ([]byte, error) {
	return func(ctx context.Context, path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/"+path, nil)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, errors.New(response.Status)
		}
		return io.ReadAll(response.Body)
	}
}

func ofAPIServer() func(context.Context, string) ([]byte, error) {
	GinkgoHelper()
	client, err := discovery.NewDiscoveryClientForConfig(RestConfig)
	Expect(err).NotTo(HaveOccurred())
	return func(ctx context.Context, path string) ([]byte, error) {
		return client.RESTClient().Get().RequestURI("/debug/pprof/" + path).DoRaw(ctx)
	}
}

// fetch stores a profile. Those of the same kind are added up.
func (p *profiler) fetch(ctx context.Context, kind, path string) {
	GinkgoHelper()
	content, err := p.get(ctx, path)
	Expect(err).NotTo(HaveOccurred())
	p.count++
	Expect(os.WriteFile(filepath.Join(p.dir, fmt.Sprintf("%s-%d", kind, p.count)), content, 0o600)).To(Succeed())
}

// save writes what go tool pprof says of the profiles of a kind to BENCH_OUTPUT.
func (p *profiler) save(ctx context.Context, kind string, collections int, flags ...string) {
	GinkgoHelper()
	name := fmt.Sprintf("%s-%s-%d.txt", p.name, kind, collections)
	files, err := filepath.Glob(filepath.Join(p.dir, kind+"-*"))
	Expect(err).NotTo(HaveOccurred())
	args := append([]string{"tool", "pprof", "-top", "-cum", fmt.Sprintf("-nodecount=%d", profiledFunctions)}, flags...)
	if p.binary != "" {
		args = append(args, p.binary)
	}
	text := Run(ctx, "go", append(args, files...)...)
	// The first lines name the binary and times.
	if at := strings.Index(text, "Showing nodes"); at > 0 {
		text = text[at:]
	}
	AddReportEntry(name, text, ReportEntryVisibilityAlways)
	if folder := os.Getenv("BENCH_OUTPUT"); folder != "" {
		Expect(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644)).To(Succeed())
	}
}
