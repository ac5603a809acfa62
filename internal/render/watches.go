package render

import (
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// Finalizer is on every instance whose kind has a finalizer playbook. Clients know it.
const Finalizer = "suboperator.zoscb.ibm.com/finalizer"

const (
	contentDir    = "/opt/ansible/content"
	entryPlaybook = "/opt/ansible/engine/entry.yml"

	// keptRuns is how many runs of an instance keep their log in the pod.
	keptRuns = 5
)

// watch is one entry of ansible-operator's watches.yaml. What the author and the user say reaches Ansible through Vars,
// which override the fields of a resource's spec.
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

func watchesYAML(c *collection.Collection, o InstallationOptions) (string, error) {
	watches := make([]watch, 0, len(c.Resources))
	for _, r := range c.Resources {
		watches = append(watches, watchOf(c, r, o))
	}
	out, err := yaml.Marshal(watches)
	if err != nil {
		return "", fmt.Errorf("%s: %w", KeyWatches, err)
	}
	// ansible-operator puts environment variables in the place of $NAME anywhere in the file.
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "$") {
			return "", fmt.Errorf("%s: %q: a playbook or group must not have a dollar sign in its name", KeyWatches, strings.TrimSpace(line))
		}
	}
	return string(out), nil
}

func watchOf(c *collection.Collection, r collection.Resource, o InstallationOptions) watch {
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
			wholeObjectVar(gvk):    map[string]any{},
		},
		ReconcilePeriod:    reconcilePeriod(o),
		MaxRunnerArtifacts: keptRuns,
		ManageStatus:       true,
		// The text of a resource must never be evaluated as a template: it would run commands next to the SSH keys.
		MarkUnsafe: true,
		// Fields reach playbooks under the names that the author gave them.
		SnakeCaseParameters: false,
		// What a playbook creates carries no owner reference that could be watched.
		WatchDependentResources: false,
		// A Secret that a playbook reads must not make the operator list and cache all of them.
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

// wholeObjectVar is the variable in which ansible-operator 1.34.1 hands the whole resource to playbooks. Its text is
// not marked unsafe there, unlike that of the spec and of the same variable with the suffix _spec, so an empty object
// takes its place.
func wholeObjectVar(gvk schema.GroupVersionKind) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace("_" + gvk.Group + "_" + strings.ToLower(gvk.Kind))
}

func reconcilePeriod(o InstallationOptions) string {
	if p := o.Runtime.ReconcilePeriod; p != nil {
		return p.Duration.String()
	}
	return "0s"
}
