package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// devOptions are the flags of dev.
type devOptions struct {
	push    *pushOptions
	files   []string
	keep    bool
	timeout time.Duration
}

func devCommand() *cobra.Command {
	o := &devOptions{push: &pushOptions{}}
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
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd, args[0])
		},
	}
	o.push.connection = newConnection(command)
	o.push.addManager(command)
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
	cluster   *cluster
	out, errs io.Writer
	// name is that of the OperatorCollection, once one was written.
	name string
}

func (o *devOptions) run(cmd *cobra.Command, path string) error {
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	d := &developing{devOptions: o, path: path, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()}
	var err error
	if d.cluster, err = o.push.connection.connect(); err != nil {
		return err
	}
	if err := d.allowed(ctx); err != nil {
		return err
	}
	files, err := watchFiles(path, o.files, "")
	if err != nil {
		return err
	}
	defer func() { _ = files.close() }()
	err = d.loop(ctx, cmd, files)
	if o.keep || d.name == "" {
		return err
	}
	stop() // From here on, Ctrl+C ends the waiting.
	return errors.Join(err, d.end(cmd.Context()))
}

// loop installs the collection, and again after each change, until the context ends.
func (d *developing) loop(ctx context.Context, cmd *cobra.Command, files *fileWatch) error {
	for {
		began := time.Now()
		d.tell(ctx, d.round(ctx, cmd), time.Since(began))
		changed, err := files.next(ctx)
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
	case !errors.Is(err, errFindings):
		fmt.Fprintln(d.errs, "error:", printable.Escape(err.Error()))
	}
	fmt.Fprintln(d.out, "\nWaiting for a change. Ctrl+C ends.")
}

// round installs the collection as it is now, and runs its custom resources.
func (d *developing) round(ctx context.Context, cmd *cobra.Command) error {
	build, err := loadRunSource(d.path)
	if err != nil {
		return refused(cmd, d.path, err)
	}
	resources, err := readDevResources(d.files, build.Collection, d.cluster.namespace)
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
	ctx, cancel := withTimeout(ctx, d.timeout)
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
		return errFindings
	}
	return err
}

// replace imports an archive in place of what is installed, and waits until it is. It reports false if the kinds do not fit.
func (d *developing) replace(ctx context.Context, build localrun.Source, archive string) (fits bool, err error) {
	manager, token, stop, err := d.push.prepare(ctx, d.cluster)
	if err != nil {
		return false, err
	}
	defer stop()
	oc := operatorCollectionOf(d.cluster.namespace, build.Collection.Name+"-dev")
	generation, err := d.write(ctx, oc, build.Digest)
	if err != nil {
		return false, err
	}
	d.push.archive = archive
	if _, err := d.push.upload(ctx, manager, token, oc); err != nil {
		return false, err
	}
	p := &devProgress{upgradeProgress: upgradeProgress{progress: progress{out: d.out}, digest: build.Digest, generation: generation, uploaded: true}}
	if err := d.cluster.follow(ctx, oc, p.observe); err != nil {
		return false, err
	}
	return !p.conflict, p.result
}

// devProgress is an installation that ends too when the kinds do not fit.
type devProgress struct {
	upgradeProgress
	conflict bool
}

func (p *devProgress) observe(object *unstructured.Unstructured) bool {
	var oc v2beta2.OperatorCollection
	if object != nil && runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &oc) == nil {
		imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
		p.conflict = imported != nil && imported.Status == metav1.ConditionFalse && imported.Reason == v2beta2.ReasonSchemaConflict &&
			oc.Status.ObservedUpload == p.digest.String() && oc.Status.ObservedGeneration >= p.generation
		if p.conflict {
			p.print(imported.Reason + ": " + imported.Message)
			return true
		}
	}
	return p.upgradeProgress.observe(object)
}
