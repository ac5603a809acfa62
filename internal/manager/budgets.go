package manager

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// budgetSettings limit what users of the manager can make it use.
type budgetSettings struct {
	kinds, endpoints, downloads, workers  budget.Limits
	storedBytes, loadedBytes, memoryLimit byteSize
	crdVersions                           int
	connections                           store.ConnectionLimits
}

// byteSize is a flag with a number of bytes, such as 512Mi.
type byteSize int64

func (b *byteSize) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

// Set implements [pflag.Value].
func (b *byteSize) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	*b = byteSize(quantity.Value())
	return err
}

// Type implements [pflag.Value].
func (b *byteSize) Type() string { return "bytes" }

func (s *budgetSettings) addFlags(flags *pflag.FlagSet) {
	limits := func(of *budget.Limits, name, what string, each, total int64) {
		flags.Int64Var(&of.PerNamespace, name+"-per-namespace", each, "maximum number of "+what+" in one namespace")
		flags.Int64Var(&of.Total, name, total, "maximum number of "+what+" in all namespaces")
	}
	bytes := func(of *byteSize, name string, value byteSize, what string) {
		*of = value
		flags.Var(of, name, what)
	}
	limits(&s.kinds, "max-kinds", "different kinds that are imported", 200, 2000)
	limits(&s.endpoints, "max-probed-endpoints", "ZosEndpoints that are probed", 1000, 5000)
	limits(&s.downloads, "max-downloads", "concurrent downloads of archives", 4, 32)
	limits(&s.workers, "max-workers", "concurrent reconciles of OperatorCollections, and of SubOperatorConfigs", 2, 4)
	bytes(&s.storedBytes, "max-stored-bytes", 2<<30, "maximum size of the different archives that are imported in all namespaces; those that nothing uses are kept only as long as all are not larger; must leave space on the volume for max-uploaded-bytes and for downloads")
	bytes(&s.loadedBytes, "max-loaded-bytes", imports.DefaultLoadedBytes, "memory for collections that are loaded, about; those that do not fit are loaded again when they are needed")
	bytes(&s.memoryLimit, "memory-limit", 0, "memory limit of the manager's container, of which nine tenths are the soft limit of the Go runtime unless GOMEMLIMIT is set; 0 sets none")
	flags.IntVar(&s.crdVersions, "max-crd-versions", 50, "maximum number of versions of a CRD; those that nothing uses end after version-retention and twice version-deprecation-period")
	flags.IntVar(&s.connections.Total, "max-archive-connections", store.DefaultConnections, "maximum number of open connections to artifact-bind-address; others wait")
	flags.IntVar(&s.connections.PerClient, "max-archive-connections-per-client", store.DefaultConnectionsPerClient, "maximum number of open connections to artifact-bind-address from one IP address; others are closed")
}

// validate returns an error if a limit is not positive, or the limit of a namespace is greater than that of all.
func (s *budgetSettings) validate() error {
	var errs []error
	for _, limit := range []struct {
		name        string
		each, total int64
	}{
		{"max-kinds", s.kinds.PerNamespace, s.kinds.Total},
		{"max-probed-endpoints", s.endpoints.PerNamespace, s.endpoints.Total},
		{"max-downloads", s.downloads.PerNamespace, s.downloads.Total},
		{"max-workers", s.workers.PerNamespace, s.workers.Total},
	} {
		if limit.each < 1 || limit.total < limit.each {
			errs = append(errs, fmt.Errorf("--%s-per-namespace must be at least 1, and --%s at least that", limit.name, limit.name))
		}
	}
	if s.connections.PerClient < 1 || s.connections.Total < s.connections.PerClient {
		errs = append(errs, errors.New("--max-archive-connections-per-client must be at least 1, and --max-archive-connections at least that"))
	}
	if s.storedBytes < 1 || s.loadedBytes < 1 || s.crdVersions < 2 || s.memoryLimit < 0 {
		errs = append(errs, errors.New("--max-stored-bytes and --max-loaded-bytes must be positive, --max-crd-versions at least 2, and --memory-limit not negative"))
	}
	return errors.Join(errs...)
}

// limitMemory sets the soft memory limit of the Go runtime.
func (s *budgetSettings) limitMemory() {
	if s.memoryLimit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(s.memoryLimit) / 10 * 9)
	}
}

func (s *budgetSettings) ofCollections() *operatorcollection.Budgets {
	return &operatorcollection.Budgets{Kinds: s.kinds, CRDVersions: s.crdVersions, StoredBytes: int64(s.storedBytes)}
}
