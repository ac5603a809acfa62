package internal_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/collection-operator/collection-operator/"

// layers says which of our own packages each package may import. Data flows from fetch to apply, once; only controller
// knows them all.
var layers = map[string][]string{
	"api/v2beta1":              {},
	"api/v2beta2":              {},
	"api/operands/v1alpha1":    {"api/v2beta2"},
	"config":                   {},
	"internal/dialguard":       {},
	"internal/fetch":           {"internal/dialguard", "internal/printable"},
	"internal/budget":          {},
	"internal/verify":          {},
	"internal/printable":       {},
	"internal/reserved":        {"internal/collection"},
	"internal/archive":         {},
	"internal/findings":        {},
	"internal/collection":      {"internal/archive", "internal/findings"},
	"internal/render":          {"api/v2beta2", "internal/collection", "internal/endpoint", "internal/environment", "internal/gate", "internal/printable"},
	"internal/crd":             {"api/v2beta2", "internal/collection", "internal/findings", "internal/printable", "internal/render"},
	"internal/playbook":        {"internal/archive", "internal/collection", "internal/findings"},
	"internal/galaxy":          {"internal/archive", "internal/collection", "internal/findings"},
	"internal/lint":            {"internal/archive", "internal/collection", "internal/crd", "internal/findings", "internal/galaxy", "internal/playbook", "internal/scenario"},
	"internal/scenario":        {"internal/archive", "internal/collection", "internal/findings", "internal/gate"},
	"internal/scenario/suite":  {"internal/collection", "internal/gate", "internal/localrun", "internal/printable", "internal/runstatus", "internal/scenario"},
	"internal/images":          {},
	"internal/fairqueue":       {},
	"internal/explain":         {"internal/collection", "internal/findings", "internal/printable", "internal/render"},
	"internal/diff":            {"api/v2beta2", "internal/collection", "internal/crd", "internal/explain", "internal/render", "internal/upgrade"},
	"internal/snapshot":        {"api/v2beta2"},
	"internal/snapshot/reader": {"api/v2beta2", "internal/collection", "internal/dynamicconfig", "internal/render", "internal/snapshot"},
	"internal/doctor": {
		"api/v2beta2", "internal/collection", "internal/dynamicconfig", "internal/endpoint", "internal/explain", "internal/findings",
		"internal/gate", "internal/printable", "internal/render", "internal/runstatus", "internal/snapshot",
	},
	"internal/mustgather": {"internal/doctor", "internal/findings", "internal/gate", "internal/printable", "internal/render", "internal/snapshot"},
	"internal/preflight":  {"internal/intervals", "api/v2beta2", "internal/apply", "internal/status", "internal/upgrade"},
	"internal/upgrade":    {"internal/collection", "internal/crd", "internal/gate", "internal/printable", "internal/render", "internal/runstatus"},
	"internal/apply":      {"api/v2beta2"},
	"internal/status":     {"internal/intervals", "api/v2beta2", "internal/apply", "internal/printable"},
	"internal/instances":  {"internal/intervals", "api/v2beta2", "internal/apply", "internal/collection", "internal/crd", "internal/printable", "internal/render", "internal/runstatus", "internal/status"},
	"internal/artifact":   {"internal/archive", "internal/fetch"},
	"internal/catalog":    {},
	"internal/probe":      {"internal/dialguard", "internal/printable"},
	"internal/engine":     {},
	"internal/podclient":  {},
	"internal/adopt":      {"api/v2beta1", "api/v2beta2", "internal/collection", "internal/crd", "internal/gate", "internal/printable", "internal/render", "internal/runstatus"},
	"internal/podlock":    {},
	"internal/container":  {},
	"internal/endpoint":   {"api/v2beta2", "internal/printable"},
	"internal/runcount":   {},
	"internal/localrun": {
		"api/v2beta2", "internal/archive", "internal/collection", "internal/crd", "internal/endpoint", "internal/engine", "internal/gate",
		"internal/podclient", "internal/printable", "internal/render", "internal/runstatus",
	},
	"internal/runner":               {"api/v2beta2", "internal/endpoint", "internal/environment", "internal/gate", "internal/podclient", "internal/podlock", "internal/printable", "internal/runcount", "internal/runstatus"},
	"cmd/engine":                    {"internal/environment", "internal/printable", "internal/runner"},
	"internal/gate":                 {},
	"internal/rollout":              {},
	"internal/intervals":            {},
	"internal/runstatus":            {"internal/endpoint", "internal/gate", "internal/printable"},
	"internal/dynamicconfig":        {"api/v2beta1", "internal/printable"},
	"internal/dynamicconfig/source": {"api/v2beta1", "api/v2beta2", "internal/dynamicconfig", "internal/printable"},
	"internal/credential":           {"internal/intervals", "internal/endpoint", "internal/status"},
	"internal/sshsecret":            {"internal/endpoint"},
	"cmd/zoscb-encrypt":             {"internal/sshsecret"},
	"internal/grants":               {"internal/intervals", "api/v2beta2", "internal/collection", "internal/render", "internal/status"},
	"internal/mapping": {
		"internal/intervals",
		"api/v2beta2", "internal/collection", "internal/credential", "internal/endpoint", "internal/instances", "internal/printable",
		"internal/render", "internal/status",
	},
	"internal/install": {
		"internal/intervals",
		"api/v2beta2", "internal/apply", "internal/artifact", "internal/collection", "internal/endpoint", "internal/environment", "internal/gate", "internal/grants", "internal/instances",
		"internal/mapping", "internal/podlock", "internal/printable", "internal/render", "internal/runstatus", "internal/status",
	},
	"internal/install/direct": {"api/v2beta2", "internal/install", "internal/render", "internal/status"},
	"internal/install/olm": {
		"internal/intervals",
		"api/v2beta2", "internal/apply", "internal/collection", "internal/install", "internal/install/direct", "internal/printable",
		"internal/render", "internal/status",
	},
	"internal/controller": {
		"internal/intervals",
		"api/v2beta2", "internal/apply", "internal/archive", "internal/artifact", "internal/budget", "internal/catalog", "internal/collection",
		"internal/crd", "internal/credential", "internal/dialguard", "internal/endpoint", "internal/fairqueue", "internal/fetch", "internal/findings",
		"internal/grants", "internal/install", "internal/install/olm", "internal/instances", "internal/mapping", "internal/metrics", "internal/printable",
		"internal/preflight", "internal/probe", "internal/render", "internal/replica", "internal/reserved", "internal/rollout", "internal/runcount", "internal/runstatus",
		"internal/status", "internal/trust", "internal/upgrade",
		"internal/verify",
	},
	"internal/operands/merge": {},
	"internal/operands/plan":  {"api/operands/v1alpha1", "api/v2beta2", "internal/operands/merge"},
	"internal/operands/controller": {
		"internal/intervals",
		"api/operands/v1alpha1", "api/v2beta2", "internal/apply", "internal/fairqueue", "internal/operands/merge", "internal/operands/plan", "internal/printable", "internal/status",
	},
	"cmd/kubectl-collection": {
		"api/v2beta2", "config", "internal/adopt", "internal/archive", "internal/artifact", "internal/catalog", "internal/collection", "internal/container", "internal/crd", "internal/diff", "api/operands/v1alpha1",
		"internal/doctor", "internal/endpoint", "internal/explain", "internal/fetch", "internal/findings", "internal/galaxy", "internal/gate",
		"internal/images", "internal/lint", "internal/localrun", "internal/mustgather", "internal/operands/plan", "internal/preflight", "internal/printable", "internal/render", "internal/runner", "internal/runstatus",
		"internal/scenario", "internal/scenario/suite", "internal/servingcert/keeper", "internal/snapshot", "internal/sshsecret", "internal/snapshot/reader", "internal/upgrade",
		"internal/upload", "internal/verify",
	},
	"cmd/manager": {
		"internal/intervals",
		"api/operands/v1alpha1", "api/v2beta2", "config", "internal/apply", "internal/artifact", "internal/budget", "internal/catalog", "internal/controller",
		"internal/crd", "internal/credential", "internal/dialguard", "internal/dynamicconfig", "internal/dynamicconfig/source", "internal/endpoint",
		"internal/environment", "internal/fetch", "internal/gate", "internal/grants",
		"internal/install/olm", "internal/metrics", "internal/operands/controller", "internal/printable", "internal/probe", "internal/render", "internal/replica", "internal/reserved",
		"internal/servingcert", "internal/servingcert/keeper", "internal/upload",
	}, "internal/environment": {},
	"internal/trust":              {},
	"internal/metrics":            {"api/v2beta2", "internal/collection", "internal/runcount"},
	"internal/replica":            {"internal/artifact", "internal/fetch", "internal/render"},
	"internal/servingcert":        {},
	"internal/servingcert/keeper": {"internal/servingcert"},
	"internal/upload":             {"api/v2beta2", "internal/artifact", "internal/fetch"},

	"internal/findings/rulecase": {"internal/findings"}, // for tests alone
}

// pure packages turn bytes and values into values.
var pure = []string{
	"internal/archive", "internal/environment", "internal/trust", "internal/verify", "internal/printable", "internal/findings", "internal/collection", "internal/reserved", "internal/render", "internal/crd",
	"internal/playbook", "internal/galaxy", "internal/lint", "internal/scenario", "internal/explain", "internal/images", "internal/diff", "internal/upgrade",
	"internal/endpoint", "internal/gate", "internal/runstatus", "internal/runcount", "internal/budget", "internal/rollout", "internal/snapshot",
	"internal/doctor", "internal/mustgather", "internal/dynamicconfig", "internal/sshsecret", "internal/adopt", "internal/operands/merge", "internal/operands/plan",
}

// impure are packages, and all below them, that a pure package must not import itself.
var impure = []string{
	"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "net", "os/exec", "os/signal", "math/rand", "log",
}

// values are packages below an impure one that know nothing but values.
var values = []string{"net/mail", "net/netip", "net/url"}

type listedPackage struct {
	ImportPath string
	Imports    []string
}

func TestPackagesImportOnlyTheLayersBelowThem(t *testing.T) {
	for name, imports := range listPackages(t) {
		allowed, known := layers[name]
		if !known {
			t.Errorf("package %s is new: say in layers what it may import", name)
			continue
		}
		for _, path := range imports {
			own, isOurs := strings.CutPrefix(path, module)
			if isOurs && !slices.Contains(allowed, own) {
				t.Errorf("package %s must not import %s", name, own)
			}
		}
	}
}

// The manager has rights in the cluster: what it need not read of an archive, it does not read.
func TestManagerReadsNoPlaybooks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", module+"cmd/manager").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	linked := strings.Fields(string(out))
	for _, name := range []string{"internal/playbook", "internal/galaxy", "internal/lint", "internal/scenario"} {
		if slices.Contains(linked, module+name) {
			t.Errorf("the manager links %s, which is for authors alone", name)
		}
	}
}

func TestPurePackagesKnowNoClientAndNoNetwork(t *testing.T) {
	packages := listPackages(t)
	for _, name := range pure {
		imports, exists := packages[name]
		if !exists {
			t.Errorf("package %s does not exist", name)
		}
		for _, path := range imports {
			if !slices.Contains(values, path) && slices.ContainsFunc(impure, func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }) {
				t.Errorf("package %s is pure and must not import %s", name, path)
			}
		}
	}
}

// listPackages returns the imports, tests excluded, of each package that is part of the product.
func listPackages(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"api/...", module+"cmd/...", module+"internal/...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v: %s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if name := strings.TrimPrefix(p.ImportPath, module); name != "internal" {
			packages[name] = p.Imports
		}
	}
	return packages
}
