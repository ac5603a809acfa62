package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const managerNamespace = "collection-operator-system"

// TestInstallation installs, upgrades and uninstalls the chart in the cluster of KUBECONFIG, which must be empty. No pods run
// there. `make test-chart` sets CHART_INSTALLATION, and provides helm and kubectl.
func TestInstallation(t *testing.T) {
	if os.Getenv("CHART_INSTALLATION") != "true" {
		t.Skip("NOT TESTED: make test-chart provides an API server")
	}
	images := []string{"--set", "image.repository=r.example.com/manager,runtime.image.repository=r.example.com/runtime"}
	install := append([]string{"install", "operators", chartFolder, "-n", managerNamespace, "--create-namespace"}, images...)
	run(t, "helm", install...)
	run(t, "kubectl", "wait", "--for=condition=Established", "crd", "-l", "app.kubernetes.io/part-of=collection-operator")
	run(t, "kubectl", "create", "namespace", "zos")
	run(t, "kubectl", "apply", "-n", "zos", "-f", "../../config/samples/operatorcollection.yaml", "-f", "../../config/samples/zosendpoint.yaml")
	before := collections(t)

	settings := func(key string) string {
		t.Helper()
		return run(t, "kubectl", "get", "configmap", "collection-operator-settings", "-n", managerNamespace, "-o", "jsonpath={.data."+key+"}")
	}
	run(t, "kubectl", "patch", "configmap", "collection-operator-settings", "-n", managerNamespace, "--type=merge", "-p", `{"data":{"patched":"kept"}}`)

	t.Run("upgrade", func(t *testing.T) {
		upgrade := append([]string{"upgrade", "operators", newer(t), "-n", managerNamespace, "--set", "replicas=1,settings.fetch-timeout=5m"}, images...)
		run(t, "helm", upgrade...)
		equal(t, "1", run(t, "kubectl", "get", "statefulset", "collection-operator-controller-manager", "-n", managerNamespace, "-o", "jsonpath={.spec.replicas}"))
		equal(t, "", run(t, "kubectl", "get", "poddisruptionbudgets", "-n", managerNamespace, "-o", "name"))
		equal(t, "5m", settings("fetch-timeout"))
		equal(t, "kept", settings("patched"))
		equal(t, "changed by an upgrade", run(t, "kubectl", "get", "crd", "zosendpoints.zoscb.ibm.com", "-o", "jsonpath={.metadata.annotations.test}"))
		equal(t, before, collections(t))
	})
	t.Run("upgrade without settings", func(t *testing.T) {
		run(t, "helm", append([]string{"upgrade", "operators", chartFolder, "-n", managerNamespace}, images...)...)
		equal(t, "", settings("fetch-timeout"))
		equal(t, "kept", settings("patched"))
		equal(t, before, collections(t))
	})
	t.Run("uninstall", func(t *testing.T) {
		run(t, "helm", "uninstall", "operators", "-n", managerNamespace)
		equal(t, "", run(t, "kubectl", "get", "statefulsets,services,configmaps,validatingadmissionpolicies", "-n", managerNamespace, "-o", "name",
			"--field-selector", "metadata.name!=kube-root-ca.crt"))
		equal(t, before, collections(t))
	})
	t.Run("install again", func(t *testing.T) {
		run(t, "helm", install...)
		equal(t, before, collections(t))
		run(t, "helm", "uninstall", "operators", "-n", managerNamespace)
	})
	t.Run("install with another name", func(t *testing.T) {
		other := append([]string{"install", "other", chartFolder, "-n", managerNamespace}, images...)
		if output, err := exec.Command("helm", other...).CombinedOutput(); err == nil || !strings.Contains(string(output), `must equal "other": current value is "operators"`) {
			t.Errorf("the CRDs of another release were taken over: %v\n%s", err, output)
		}
		run(t, "helm", append(other, "--take-ownership")...)
		equal(t, before, collections(t))
	})
}

// newer returns a folder with a later version of the chart, which has another CRD.
func newer(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "templates", "crds.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const keep = "    helm.sh/resource-policy: keep\n"
	changed := bytes.ReplaceAll(text, []byte(keep), []byte(keep+"    test: changed by an upgrade\n"))
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// collections returns the identities of the OperatorCollections and ZosEndpoints.
func collections(t *testing.T) string {
	t.Helper()
	found := run(t, "kubectl", "get", "operatorcollections,zosendpoints", "-n", "zos", "-o", "jsonpath={range .items[*]}{.kind}/{.metadata.name}/{.metadata.uid} {end}")
	if !strings.Contains(found, "OperatorCollection/") || !strings.Contains(found, "ZosEndpoint/") {
		t.Fatalf("OperatorCollection or ZosEndpoint is missing: %s", found)
	}
	return found
}

func run(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(output))
}

func equal(t *testing.T, want, got string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
