package adopt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

// adoptOptions are the flags of adopt.
type adoptOptions struct {
	backup, archives     string
	finalizers           []string
	dryRun, back, finish bool
	yes, dropFields      bool
	timeout              time.Duration
}

// adoption is one adoption, or its end.
type adoption struct {
	*adoptOptions
	cluster *kube.Cluster
	folder  folder
	writer  writer
	state   adopt.State
	in      io.Reader
	out     io.Writer
}

// read reads what adoption is about: the cluster, the backup of a former attempt, and the archives that the user has.
func (a *adoption) read(ctx context.Context) error {
	groups, err := restmapper.GetAPIGroupResources(a.cluster.Discovery)
	if err != nil {
		return err
	}
	a.writer = writer{cluster: a.cluster, mapper: restmapper.NewDiscoveryRESTMapper(groups)}
	a.state = adopt.State{Finalizers: a.finalizers, DropFields: a.dropFields}
	if err := (reader{cluster: a.cluster, state: &a.state}).read(ctx); err != nil {
		return err
	}
	return errors.Join(a.readFormer(ctx), a.readArchives())
}

// readFormer reads the finalizers that were named to a former attempt and, if it was interrupted, what it has begun to remove.
func (a *adoption) readFormer(ctx context.Context) error {
	a.state.Proven = map[types.UID]bool{}
	if a.backup == "" {
		return nil
	}
	former, err := a.folder.load(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a.state.Finalizers = slices.Concat(a.state.Finalizers, former.Finalizers)
	if former.Restored {
		return nil
	}
	a.state.HasBackup = !former.Finished
	for _, o := range former.Removed {
		a.state.Proven[o.GetUID()] = true
	}
	return nil
}

// readArchives reads the archives that the user has.
func (a *adoption) readArchives() error {
	if a.archives == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(a.archives, "*.tar.gz"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		source, err := author.LoadSource(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			continue
		}
		a.state.Archives = append(a.state.Archives, adopt.Archive{
			File: file, Digest: source.Digest, Collection: source.Collection,
		})
	}
	return errors.Join(errs...)
}

// checkAgain reads the cluster again, which may have changed while the user was asked, and refuses it if there are problems by now.
func (a *adoption) checkAgain(ctx context.Context, problems func() []string) error {
	if a.yes {
		return nil
	}
	if err := a.read(ctx); err != nil {
		return err
	}
	if found := problems(); len(found) > 0 {
		return a.refuse(found)
	}
	return nil
}

// confirmed asks whether to go on, unless the user has said so.
func (a *adoption) confirmed(question string) bool {
	if a.yes || kit.Confirm(a.in, a.out, question) {
		return true
	}
	fmt.Fprintln(a.out, "not confirmed: nothing was changed")
	return false
}

func (a *adoption) refuse(problems []string) error {
	for _, problem := range problems {
		a.say(problem)
	}
	fmt.Fprintln(a.out, "Nothing was changed: solve the problems first.")
	return kit.ErrFindings
}

func (a *adoption) say(what string) {
	if what != "" {
		fmt.Fprintln(a.out, "- "+printable.Escape(what))
	}
}

// backupFile is the file in the folder of a backup.
const backupFile = "before-adoption.yaml"

// folder has the backup of a cluster.
type folder struct {
	path    string
	cluster *kube.Cluster
}

// clusterUID identifies a cluster.
func (f folder) clusterUID(ctx context.Context) (types.UID, error) {
	namespace, err := f.cluster.Core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return namespace.UID, nil
}

// load reads a backup of this cluster.
func (f folder) load(ctx context.Context) (*adopt.Backup, error) {
	name := filepath.Join(f.path, backupFile)
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	b := &adopt.Backup{}
	if err := yaml.UnmarshalStrict(content, b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	uid, err := f.clusterUID(ctx)
	if err == nil && uid != b.Cluster {
		err = fmt.Errorf("%s is of another cluster", name)
	}
	return b, err
}

// write replaces the file as a whole.
func (f folder) write(b *adopt.Backup) error {
	content, err := yaml.Marshal(b)
	if err != nil {
		return err
	}
	return f.writeFile(backupFile, content)
}

// writeFile writes a file of the folder as a whole.
func (f folder) writeFile(name string, content []byte) error {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	path := filepath.Join(f.path, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
