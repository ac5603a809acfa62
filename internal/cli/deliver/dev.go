package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// devOptions are the flags of dev.
type devOptions struct {
	manager managerFlags
	files   []string
	keep    bool
	timeout time.Duration
}

func devCommand() *cobra.Command {
	o := &devOptions{}
	command := &cobra.Command{
		Use:   "dev PATH --filename RESOURCE.yaml",
		Short: "Install a collection from its folder, and again after each change",
		Long: `Builds the archive of a collection, installs it in a namespace of a cluster, applies custom resources, and shows their runs. When a file
has changed, it does so again: the operator is replaced in place, and the playbooks of the resources run again. At the end, after Ctrl+C,
everything is removed: the resources by their deletion playbooks, then the operator and the kinds.

The namespace must allow it: an administrator annotates it with zoscb.ibm.com/allow-development=true. The kinds are in an API group of their
own (apiGroup: PerCollection), so that other collections, and other versions of this one in the shared group, are not affected. The archive
is pinned by its digest: verification is not skipped. If a change does not fit the kinds that are installed, such as another type of a
variable, the collection is removed and installed anew.

You need the right to get the namespace, to create, update, patch, delete, get, list and watch the OperatorCollection and the custom
resources, and what push needs.

Exit codes are 0 if everything was removed, or with --keep if it was ended by Ctrl+C, and 2 if the command failed or something is left.`,
		Example: `  # The namespace has a ZosEndpoint with a credential
  kubectl annotate namespace dev zoscb.ibm.com/allow-development=true
  kubectl collection dev zos_users --filename user.yaml --namespace dev`,
		Args: kit.Exactly(1),
	}
	o.manager.addFlags(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error { return o.run(cmd, c, args[0]) })
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file with custom resources of the collection; may be repeated")
	flags.BoolVar(&o.keep, "keep", false, "leave everything installed at the end")
	flags.DurationVar(&o.timeout, "timeout", 5*time.Minute, "longest time of an installation, and of the removal; 0 means no limit")
	return command
}

// developing is a collection under development in a cluster.
type developing struct {
	*devOptions
	path      string
	cluster   *kube.Cluster
	out, errs io.Writer
	// name is that of the OperatorCollection, once one was written.
	name string
}

func (o *devOptions) run(cmd *cobra.Command, c *kube.Cluster, path string) error {
	ctx, stop := kit.UntilSignal(cmd.Context())
	defer stop()
	d := &developing{devOptions: o, path: path, cluster: c, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
	if err := d.allowed(ctx); err != nil {
		return err
	}
	files, err := kit.WatchFiles(path, o.files, "")
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }()
	err = d.loop(ctx, cmd, files)
	if o.keep || d.name == "" {
		return err
	}
	stop() // From here on, Ctrl+C ends the waiting.
	return errors.Join(err, d.end(cmd.Context()))
}

// loop installs the collection, and again after each change, until the context ends.
func (d *developing) loop(ctx context.Context, cmd *cobra.Command, files *kit.FileWatch) error {
	for {
		began := time.Now()
		d.tell(ctx, d.round(ctx, cmd), time.Since(began))
		changed, err := files.Next(ctx)
		if err != nil || changed == "" {
			return err
		}
		fmt.Fprintf(d.out, "Changed: %s\n", printable.Escape(changed))
	}
}

// tell prints how a round ended and what comes next, unless it was interrupted.
func (d *developing) tell(ctx context.Context, err error, took time.Duration) {
	if ctx.Err() != nil {
		return
	}
	switch {
	case err == nil:
		fmt.Fprintf(d.out, "Done after %s.\n", took.Round(100*time.Millisecond))
	case !errors.Is(err, kit.ErrFindings):
		fmt.Fprintln(d.errs, "error:", printable.Escape(err.Error()))
	}
	fmt.Fprintln(d.out, "\nWaiting for a change. Ctrl+C ends.")
}

// round installs the collection as it is now, and runs its custom resources.
func (d *developing) round(ctx context.Context, cmd *cobra.Command) error {
	build, err := author.LoadRunSource(d.path)
	if err != nil {
		return author.Refused(cmd, d.path, err)
	}
	resources, err := readDevResources(d.files, build.Collection, d.cluster.Namespace)
	if err != nil {
		return err
	}
	archive, err := writeTemporary(build.Archive)
	if err != nil {
		return err
	}
	defer os.Remove(archive)
	if err := d.install(ctx, build, archive); err != nil {
		return err
	}
	return d.runAll(ctx, build.Collection, resources)
}

func writeTemporary(content []byte) (string, error) {
	file, err := os.CreateTemp("", "collection-*.tar.gz")
	if err != nil {
		return "", err
	}
	_, err = file.Write(content)
	return file.Name(), errors.Join(err, file.Close())
}

// install installs an archive. If it does not fit the kinds as they are installed, the collection is removed first.
func (d *developing) install(ctx context.Context, build localrun.Source, archive string) error {
	ctx, cancel := kit.WithTimeout(ctx, d.timeout)
	defer cancel()
	fits, err := d.replace(ctx, build, archive)
	if err != nil || fits {
		return err
	}
	fmt.Fprintln(d.out, "The kinds have changed in a way that needs a new installation.")
	if err := d.remove(ctx); err != nil {
		return err
	}
	fits, err = d.replace(ctx, build, archive)
	if err == nil && !fits {
		return kit.ErrFindings
	}
	return err
}

// replace imports an archive in place of what is installed, and waits until it is. It reports false if the kinds do not fit.
func (d *developing) replace(ctx context.Context, build localrun.Source, archive string) (fits bool, err error) {
	manager, stop, err := d.manager.reach(ctx, d.cluster)
	if err != nil {
		return false, err
	}
	defer stop()
	oc := kube.OperatorCollectionOf(d.cluster.Namespace, build.Collection.Name+"-dev")
	generation, err := d.write(ctx, oc, build.Digest)
	if err != nil {
		return false, err
	}
	if _, err := manager.upload(ctx, archive, oc); err != nil {
		return false, err
	}
	p := &devProgress{upgradeProgress: upgradeProgress{Progress: kube.Progress{Out: d.out}, digest: build.Digest, generation: generation, uploaded: true}}
	err = d.cluster.FollowCollection(ctx, oc, p.observe)
	return err == nil && !p.conflict, err
}

// devProgress is an installation that ends too when the kinds do not fit.
type devProgress struct {
	upgradeProgress
	conflict bool
}

func (p *devProgress) observe(oc *v2beta2.OperatorCollection) (bool, error) {
	if oc != nil {
		imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
		p.conflict = imported != nil && imported.Status == metav1.ConditionFalse && imported.Reason == v2beta2.ReasonSchemaConflict &&
			oc.Status.ObservedUpload == p.digest.String() && oc.Status.ObservedGeneration >= p.generation
		if p.conflict {
			p.Print(imported.Reason + ": " + imported.Message)
			return true, nil
		}
	}
	return p.upgradeProgress.observe(oc)
}

const (
	// annotationDevelopment is on the namespaces in which dev works, with the value "true".
	annotationDevelopment = "zoscb.ibm.com/allow-development"
	// labelDevelopment is on the OperatorCollections of dev, with the value "true".
	labelDevelopment = "zoscb.ibm.com/development"
)

// allowed returns an error unless the namespace is one for development.
func (d *developing) allowed(ctx context.Context) error {
	namespace, err := d.cluster.Core.Namespaces().Get(ctx, d.cluster.Namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if namespace.Annotations[annotationDevelopment] != "true" {
		return fmt.Errorf("namespace %q does not allow development: an administrator allows it with `kubectl annotate namespace %s %s=true`",
			namespace.Name, namespace.Name, annotationDevelopment)
	}
	return nil
}

// write creates or changes the OperatorCollection so that it takes an archive, and returns its generation. It does not touch one that
// was not created by dev.
func (d *developing) write(ctx context.Context, oc kube.Resource, archive digest.Digest) (int64, error) {
	client := d.cluster.Client(oc)
	live, err := client.Get(ctx, oc.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return 0, err
	case live.GetLabels()[labelDevelopment] != "true":
		return 0, fmt.Errorf("OperatorCollection %q exists in namespace %q and was not created by this command: rename or delete it", oc.Name, oc.Namespace)
	case live.GetDeletionTimestamp() != nil:
		return 0, fmt.Errorf("OperatorCollection %q in namespace %q is being deleted: wait until it is gone", oc.Name, oc.Namespace)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"apiGroup": string(v2beta2.APIGroupPerCollection), "digest": archive.String(),
		"deletionPolicy": string(v2beta2.DeletionFinalize), "upgrade": map[string]any{"policy": string(v2beta2.UpgradeAllowBreaking)},
	}}}
	object.SetGroupVersionKind(oc.Mapping.GroupVersionKind)
	object.SetName(oc.Name)
	object.SetLabels(map[string]string{labelDevelopment: "true"})
	written, err := client.Apply(ctx, oc.Name, object, metav1.ApplyOptions{FieldManager: kube.FieldManager, Force: true})
	if err != nil {
		return 0, err
	}
	d.name = oc.Name
	return written.GetGeneration(), nil
}

// end removes the collection, for at most the time of --timeout or until Ctrl+C.
func (d *developing) end(parent context.Context) error {
	ctx, stop := kit.UntilSignal(parent)
	defer stop()
	ctx, cancel := kit.WithTimeout(ctx, d.timeout)
	defer cancel()
	fmt.Fprintln(d.out, "Removing the collection. Ctrl+C leaves the rest to the cluster.")
	err := d.remove(ctx)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: OperatorCollection %q in namespace %q is deleted once its custom resources are: see `kubectl collection status -n %s`",
		err, d.name, d.cluster.Namespace, d.cluster.Namespace)
}

// remove deletes the OperatorCollection, and waits until it is gone with its custom resources.
func (d *developing) remove(ctx context.Context) error {
	oc := kube.OperatorCollectionOf(d.cluster.Namespace, d.name)
	err := d.cluster.Client(oc).Delete(ctx, oc.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p := &kube.Progress{Out: d.out}
	err = d.cluster.FollowCollection(ctx, oc, func(oc *v2beta2.OperatorCollection) (bool, error) {
		if oc == nil {
			p.Print("Removed")
			return true, nil
		}
		if oc.DeletionTimestamp.IsZero() {
			return false, nil
		}
		if ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
			p.Print(ready.Reason + ": " + ready.Message)
		}
		return false, nil
	})
	if err == nil && ctx.Err() != nil {
		return errors.New("not removed yet")
	}
	return err
}

// readDevResources reads the custom resources in files, and brings them to the version and the API group that dev installs.
func readDevResources(files []string, c *model.Collection, namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := localrun.ReadObjects(files)
	errs := []error{err}
	resources := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		group := object.GroupVersionKind().Group
		_, known := c.Resource(object.GetKind())
		switch {
		case !known || group != c.Group(false) && group != c.Group(true):
			err = fmt.Errorf("%s %s is not a custom resource of the collection: create it with kubectl", object.GetKind(), object.GetName())
		case object.GetNamespace() != "" && object.GetNamespace() != namespace:
			err = fmt.Errorf("%s %s is for namespace %q, not %q", object.GetKind(), object.GetName(), object.GetNamespace(), namespace)
		case object.GetName() == "":
			err = fmt.Errorf("a %s has no metadata.name", object.GetKind())
		default:
			object.SetAPIVersion(c.Group(true) + "/" + c.APIVersion())
			resources = append(resources, object.Unstructured)
			continue
		}
		errs = append(errs, err)
	}
	return resources, errors.Join(errs...)
}

// runAll applies the custom resources, and shows their runs, one after the other.
func (d *developing) runAll(ctx context.Context, c *model.Collection, resources []*unstructured.Unstructured) error {
	failed := false
	for _, object := range resources {
		kind, _ := c.Resource(object.GetKind())
		gvk := object.GroupVersionKind()
		gvr := gvk.GroupVersion().WithResource(kind.Plural())
		r := kube.Resource{
			Mapping:   &meta.RESTMapping{Resource: gvr, GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace},
			Namespace: d.cluster.Namespace, Name: object.GetName(),
		}
		succeeded, err := d.runOne(ctx, r, object)
		if err != nil {
			return err
		}
		failed = failed || !succeeded
	}
	if failed {
		return kit.ErrFindings
	}
	return nil
}

// runOne applies a custom resource, asks for a run if it was there before, and follows the run to its end.
func (d *developing) runOne(ctx context.Context, r kube.Resource, object *unstructured.Unstructured) (succeeded bool, err error) {
	client := d.cluster.Client(r)
	before := ""
	live, err := client.Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, err
	default:
		status, err := kube.StatusOf(live)
		if err != nil {
			return false, fmt.Errorf("%s: status: %w", r, err)
		}
		before = kube.LastRunID(status)
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[gate.AnnotationRequestedAt] = time.Now().UTC().Format(time.RFC3339Nano)
		object.SetAnnotations(annotations)
	}
	if _, err := client.Apply(ctx, r.Name, object, metav1.ApplyOptions{FieldManager: kube.FieldManager, Force: true}); err != nil {
		return false, err
	}
	fmt.Fprintf(d.out, "%s/%s:\n", printable.Escape(r.Kind()), r.Name)
	run, err := d.cluster.RunToEnd(ctx, r, d.out, before)
	return run != nil && run.Outcome.Succeeded(), err
}
