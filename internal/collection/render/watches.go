package render

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Finalizer is the finalizer of instances whose kind has a finalizer playbook. Clients rely on the name.
const Finalizer = "suboperator.zoscb.ibm.com/finalizer"

// watch is one entry of ansible-operator's watches.yaml. Vars take precedence over the fields of a resource's spec.
type watch struct {
	Group                   string          `json:"group"`
	Version                 string          `json:"version"`
	Kind                    string          `json:"kind"`
	Playbook                string          `json:"playbook"`
	Vars                    map[string]any  `json:"vars"`
	Finalizer               *watchFinalizer `json:"finalizer,omitempty"`
	ReconcilePeriod         string          `json:"reconcilePeriod"`
	MaxRunnerArtifacts      int             `json:"maxRunnerArtifacts"`
	ManageStatus            bool            `json:"manageStatus"`
	WatchAnnotationsChanges bool            `json:"watchAnnotationsChanges"`
	MarkUnsafe              bool            `json:"markUnsafe"`
	SnakeCaseParameters     bool            `json:"snakeCaseParameters"`
	WatchDependentResources bool            `json:"watchDependentResources"`
	Blacklist               []watchKind     `json:"blacklist"`
}

type watchFinalizer struct {
	Name     string         `json:"name"`
	Playbook string         `json:"playbook"`
	Vars     map[string]any `json:"vars"`
}

type watchKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func watchesYAML(c *model.Collection, o InstallationOptions) (string, error) {
	watches := make([]watch, 0, len(c.Resources))
	for _, r := range c.Resources {
		watches = append(watches, watchOf(c, r, o))
	}
	out, err := yaml.Marshal(watches)
	if err != nil {
		return "", fmt.Errorf("%s: %w", KeyWatches, err)
	}
	// ansible-operator expands $NAME to environment variables everywhere in the file.
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "$") {
			return "", fmt.Errorf("%s: %q: a playbook or group must not have a dollar sign in its name", KeyWatches, strings.TrimSpace(line))
		}
	}
	return string(out), nil
}

func watchOf(c *model.Collection, r model.Resource, o InstallationOptions) watch {
	gvk := schema.GroupVersionKind{Group: o.Group, Version: c.APIVersion(), Kind: r.Kind}
	w := watch{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Playbook: entryPlaybook,
		Vars: map[string]any{
			"zoscb_playbook":       path.Join(contentDir, r.Playbook),
			"zoscb_inventory_name": c.InventoryName,
			"k8s_managed":          true,
			"k8s_cr_event":         "create",
			"k8s_cr_group":         gvk.Group,
			"k8s_cr_version":       gvk.GroupVersion().String(),
			"k8s_cr_kind":          gvk.Kind,
			// Unlike the spec, it is not marked unsafe, so it is overridden with an empty object.
			gate.ObjectVariable(gvk.Group, gvk.Kind): map[string]any{},
		},
		// The gate decides when a playbook runs again, and writes the status. Users ask it by annotations.
		ReconcilePeriod:         "0s",
		MaxRunnerArtifacts:      maxArtifacts(o.Runtime, r),
		ManageStatus:            false,
		WatchAnnotationsChanges: true,
		// Values of a resource must never be evaluated as templates: they could run commands in the pod with the SSH keys.
		MarkUnsafe: true,
		// Playbooks get fields under their own names.
		SnakeCaseParameters: false,
		// Objects that a playbook creates have no owner reference to watch.
		WatchDependentResources: false,
		// A playbook that reads a Secret must not make the operator list and cache all Secrets.
		Blacklist: []watchKind{{Version: "v1", Kind: "Secret"}},
	}
	if r.Finalizer != "" {
		w.Finalizer = &watchFinalizer{
			Name:     Finalizer,
			Playbook: entryPlaybook,
			Vars: map[string]any{
				"k8s_cr_event":   "delete",
				"zoscb_playbook": path.Join(contentDir, r.Finalizer),
			},
		}
	}
	return w
}
