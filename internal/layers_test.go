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

// groups are the folders below internal, from the bottom to the top. A package imports its own group and those that are named.
// Data flows upwards, once: an archive is fetched and verified (source), read and rendered (collection), and installed (install), and
// a reconciler (controller) does that for an object. What runs reconcilers is on top (manager). What runs the playbooks (run) knows nothing of collections.
var groups = []group{
	{"platform", nil},
	{"source", []string{"platform"}},
	{"run", []string{"platform"}},
	{"collection", []string{"platform", "source", "run"}},
	{"install", []string{"platform", "source", "run", "collection"}},
	{"controller", []string{"platform", "source", "run", "collection", "install"}},
	{"operands", []string{"platform"}},
	{"manager", []string{"platform", "source", "run", "collection", "install", "controller", "operands"}},
	{"author", []string{"platform", "source", "run", "collection"}},
	{"support", []string{"platform", "source", "run", "collection"}},
	{"cli", []string{"platform", "source", "run", "collection", "install", "operands", "author", "support"}},
}

type group struct {
	name string
	may  []string
}

// reconcilers are the packages that reconcile a kind. None imports another one, and what they share imports none.
var reconcilers = []string{
	"controller/catalog", "controller/customresourcedefinition", "controller/operatorcollection", "controller/operatorcondition",
	"controller/runcounts", "controller/suboperatorconfig", "controller/subscription", "controller/zosendpoint",
	"operands/operandregistry", "operands/operandrequest",
}

// cliPackages are those below internal/cli, each with what it may import of them: kit, kube and author are imported upwards alone, and
// packages of commands do not know each other.
var cliPackages = map[string][]string{
	"kit": nil, "kube": {"kit"}, "author": {"kit", "kube"},
	"local": {"kit", "kube", "author"}, "runs": {"kit", "kube", "author"}, "deliver": {"kit", "kube", "author"},
	"admin": {"kit", "kube", "author"}, "adopt": {"kit", "kube", "author"},
}

// pure packages turn bytes and values into values.
var pure = []string{
	"internal/source/archive", "internal/run/environment", "internal/platform/trust", "internal/source/verify", "internal/platform/printable", "internal/collection/findings", "internal/collection/model", "internal/collection/reserved", "internal/collection/render", "internal/collection/crd",
	"internal/author/playbook", "internal/author/playbook/jinja", "internal/author/galaxy", "internal/author/lint", "internal/author/scenario", "internal/collection/explain", "internal/author/images", "internal/author/diff", "internal/collection/upgrade",
	"internal/run/endpoint", "internal/run/gate", "internal/run/runstatus", "internal/run/runcount", "internal/platform/budget", "internal/install/rollout", "internal/support/snapshot",
	"internal/support/doctor", "internal/support/mustgather", "internal/platform/settings", "internal/run/sshsecret", "internal/support/adopt", "internal/operands/merge", "internal/operands/plan",
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

func TestGroupsImportOnlyThoseBelowThem(t *testing.T) {
	mayImport := map[string][]string{}
	for _, g := range groups {
		mayImport[g.name] = append(g.may, g.name)
	}
	for name, imports := range listPackages(t) {
		top, below, _ := strings.Cut(name, "/")
		in, _, _ := strings.Cut(below, "/")
		allowed, known := mayImport[in]
		if top == "internal" && !known {
			t.Errorf("package %s is in no group: say in groups what %s may import", name, in)
		}
		for _, path := range imports {
			own, isOurs := strings.CutPrefix(path, module)
			if !isOurs {
				continue
			}
			ownTop, ownBelow, _ := strings.Cut(own, "/")
			imported, _, _ := strings.Cut(ownBelow, "/")
			switch {
			case ownTop == "cmd", ownTop == "test", top == "internal" && in != "manager" && in != "cli" && ownTop == "config", top == "api" && ownTop != "api":
				t.Errorf("package %s must not import %s", name, own)
			case top == "internal" && ownTop == "internal" && !slices.Contains(allowed, imported):
				t.Errorf("package %s must not import %s: %s is not below %s", name, own, imported, in)
			}
		}
	}
}

func TestReconcilersAreImportedByNoOtherPackageOfTheirGroup(t *testing.T) {
	packages := listPackages(t)
	for _, name := range reconcilers {
		reconciler := "internal/" + name
		if _, exists := packages[reconciler]; !exists {
			t.Errorf("package %s does not exist", reconciler)
		}
		for importer, imports := range packages {
			if strings.HasPrefix(importer, "internal/") && importer != "internal/manager" && slices.Contains(imports, module+reconciler) {
				t.Errorf("package %s must not import %s", importer, reconciler)
			}
		}
	}
}

func TestCommandsOfTheToolDoNotImportEachOther(t *testing.T) {
	packages := listPackages(t)
	for name := range cliPackages {
		if _, exists := packages["internal/cli/"+name]; !exists {
			t.Errorf("package internal/cli/%s does not exist", name)
		}
	}
	for importer, imports := range packages {
		name, isCommand := strings.CutPrefix(importer, "internal/cli/")
		allowed, known := cliPackages[name]
		if isCommand && !known {
			t.Errorf("say in cliPackages what package %s may import", importer)
		}
		for _, path := range imports {
			if imported, isOfTool := strings.CutPrefix(path, module+"internal/cli/"); isOfTool && isCommand && !slices.Contains(allowed, imported) {
				t.Errorf("package %s must not import internal/cli/%s", importer, imported)
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
	for _, name := range []string{"internal/author/playbook", "internal/author/playbook/jinja", "internal/author/galaxy", "internal/author/lint", "internal/author/scenario"} {
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
			if own, isOurs := strings.CutPrefix(path, module); isOurs && strings.HasPrefix(own, "internal/") && !slices.Contains(pure, own) {
				t.Errorf("package %s is pure and must not import %s, which is not", name, own)
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
