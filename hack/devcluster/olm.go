package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	olmModule    = "github.com/operator-framework/operator-lifecycle-manager"
	olmNamespace = "olm"
)

// olmDeployments are the Deployments of the Operator Lifecycle Manager (OLM), in the order of their dependencies.
var olmDeployments = []string{"olm-operator", "catalog-operator", "packageserver"}

func olmComponent(name, command string) component {
	return component{name: name, folder: "components/olm", pkg: olmModule + "/cmd/" + command}
}

// addOLM installs OLM in the running cluster, or checks an existing installation. All components run in pods:
// catalog-operator resolves the names of Services, and packageserver is an aggregated API with a certificate of OLM.
func (n node) addOLM(ctx context.Context) error {
	i, err := olmImage(n.project)
	if err != nil {
		return err
	}
	if err := n.load(ctx, i); err != nil {
		return err
	}
	manifests, err := n.olmManifests(i)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(n.conf("olm.yaml")); err == nil && string(have) == manifests && n.olmReady(ctx) == nil {
		note("the Operator Lifecycle Manager runs")
		return nil
	}
	if err := writeFile(n.conf("olm.yaml"), manifests, 0o644); err != nil {
		return err
	}
	crds, err := n.olmCRDs(ctx)
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "--field-manager=devcluster", "-f", crds},
		{"wait", "--for=condition=Established", "--timeout=1m", "-f", crds},
		// OLM also writes to the ClusterServiceVersion, and restores its fields.
		{"apply", "--server-side", "--force-conflicts", "--field-manager=devcluster", "-f", n.conf("olm.yaml")},
	} {
		if _, err := n.plane.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	if err := waitFor(ctx, "the Operator Lifecycle Manager", 5*time.Minute, n.olmReady); err != nil {
		return fmt.Errorf("%w; see devcluster logs %s", err, olmDeployments[0])
	}
	note("the Operator Lifecycle Manager is up")
	return nil
}

// olmReady returns nil if all Deployments of OLM are rolled out and the API server reaches the package server.
func (n node) olmReady(ctx context.Context) error {
	phase, err := n.plane.kubectl(ctx, "", "get", "clusterserviceversion", "--namespace="+olmNamespace, "packageserver", "--output=jsonpath={.status.phase}: {.status.message}")
	if err == nil && !strings.HasPrefix(phase, "Succeeded:") {
		err = fmt.Errorf("packageserver is %s", phase)
	}
	if err != nil {
		return err
	}
	for _, name := range olmDeployments {
		if _, err := n.plane.kubectl(ctx, "", "rollout", "status", "--namespace="+olmNamespace, "deployment/"+name, "--timeout=1s"); err != nil {
			return err
		}
	}
	_, err = n.plane.kubectl(ctx, "", "get", "packagemanifests.packages.operators.coreos.com", "--all-namespaces")
	return err
}

// olmImage returns an image with OLM's programs, at the same paths as in OLM's own image.
func olmImage(p project) (image, error) {
	var programs []entry
	for _, c := range olmComponents {
		programs = append(programs, entry{target: "bin/" + filepath.Base(c.pkg), source: p.binary(c.name)})
	}
	l, err := fileLayer(p, "olm", programs...)
	return image{name: "olm", layers: []layer{l}, config: v1.ImageConfig{User: "1001:0", Env: []string{searchPath}}}, err
}

func (n node) olmManifests(i image) (string, error) {
	_, manifest, err := i.describe()
	if err != nil {
		return "", err
	}
	goMod, err := os.ReadFile(n.source("components", "olm", "go.mod"))
	if err != nil {
		return "", err
	}
	version, err := requiredVersion(goMod, olmModule)
	if err != nil {
		return "", err
	}
	return strings.NewReplacer(
		"{{olmImage}}", i.reference(),
		"{{olmDigest}}", manifest.descriptor.Digest.String(), // the tag does not change
		"{{olmVersion}}", strings.TrimPrefix(version, "v"),
	).Replace(embedded("olm.yaml")), nil
}

// olmCRDs returns the folder with the CRDs of the OLM version that is built. It downloads the module if only its binaries
// were cached.
func (n node) olmCRDs(ctx context.Context) (string, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", olmModule)
	download.Dir = n.source("components", "olm")
	download.Env = append(os.Environ(), "GOWORK=off")
	output, err := download.Output()
	var module struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(output, &module); err != nil || jsonErr != nil || module.Dir == "" {
		return "", fmt.Errorf("the module %s is not there: %w %s", olmModule, err, module.Error)
	}
	return filepath.Join(module.Dir, "deploy", "chart", "crds"), nil
}

// hasOLM reports whether OLM was added to the cluster.
func (n node) hasOLM() bool {
	_, err := os.Stat(n.conf("olm.yaml"))
	return err == nil
}
