package gitops

import (
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/test/project"
)

// What the integration specs recorded from a live API server, the real manager and the real gate. RECORD_GITOPS=true records anew.
var (
	checksFile = filepath.Join("config", "gitops", "argocd-cm.yaml")
	recordings = filepath.Join("test", "gitops", "testdata")
)

// ProjectChecks returns the checks that the project ships.
func ProjectChecks() (Checks, error) {
	content, err := readFile(checksFile)
	if err != nil {
		return nil, err
	}
	return ReadChecks(content)
}

// Recorded returns an object as it was recorded under a name.
func Recorded(name string) (*unstructured.Unstructured, error) {
	content, err := readFile(filepath.Join(recordings, name+".yaml"))
	if err != nil {
		return nil, err
	}
	content, err = yaml.YAMLToJSON(content)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{}
	return object, object.UnmarshalJSON(content)
}

// Record writes an object under a name, without what is different in each run of a spec and says nothing about health.
func Record(name string, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "annotations", "ownerReferences", "labels"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	content, err := yaml.Marshal(object.Object)
	if err != nil {
		return err
	}
	dir, err := project.Dir()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recordings, name+".yaml"), content, 0o644)
}

func readFile(path string) ([]byte, error) {
	dir, err := project.Dir()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, path))
}
