package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// upgradeOptions are the flags of upgrade.
type upgradeOptions struct {
	manager          managerFlags
	target, to, from string
	dryRun           bool
	timeout          time.Duration
}

func upgradeCommand() *cobra.Command {
	o := &upgradeOptions{}
	command := &cobra.Command{
		Use:   "upgrade OPERATORCOLLECTION --to ARCHIVE",
		Short: "Upgrade an OperatorCollection and wait",
		Long: `Show what another version means for the custom resources in the namespaces in which an OperatorCollection is installed, write
the version into its spec, and wait until it is installed. Nothing is written if it does not fit a custom resource, unless
spec.upgrade.policy is AllowBreaking, or with --dry-run.

ARCHIVE is a URL, which the manager must reach too, or a file, which is uploaded as push does. The digest of the archive is
written into spec.digest. An older version is another version too.

To know which fields were removed or changed their meaning, the command needs the archive of the installed version: it reads
spec.collectionURL, or the archive that --from gives. You need the right to get and patch the OperatorCollection, and to list
SubOperatorConfigs and the custom resources.

Exit codes are 0 if the version is installed, or with --dry-run would be, 1 if something keeps it from being installed, and 2 if
the command failed or the result is unknown.`,
		Example: `  # Would it work?
  kubectl collection upgrade users -n demo --to example-zos_users-1.1.0.tar.gz --dry-run

  # Do it
  kubectl collection upgrade users -n demo --to https://example.com/example-zos_users-1.1.0.tar.gz`,
		Args: kit.Exactly(1),
	}
	o.manager.addFlags(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		o.target = args[0]
		return o.run(cmd, c)
	})
	flags := command.Flags()
	flags.StringVar(&o.to, "to", "", "archive of the version: a URL or a file")
	flags.StringVar(&o.from, "from", "", "archive of the installed version: a URL or a file")
	flags.BoolVar(&o.dryRun, "dry-run", false, "write nothing")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest time to wait; 0 means no limit")
	_ = command.MarkFlagRequired("to")
	return command
}

// upgrading is an upgrade under way.
type upgrading struct {
	*upgradeOptions
	cluster *kube.Cluster
	out     io.Writer
	oc      *v2beta2.OperatorCollection
	// archive is the version to install, and installed the one that is, or nil if it is not known.
	archive   *author.Source
	installed *model.Collection
}

func (o *upgradeOptions) run(cmd *cobra.Command, c *kube.Cluster) error {
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	u := &upgrading{upgradeOptions: o, cluster: c, out: cmd.OutOrStdout()}
	if err := u.load(ctx, cmd); err != nil {
		return err
	}
	if err := u.preflight(ctx); err != nil || o.dryRun {
		return err
	}
	generation, err := u.apply(ctx)
	if err != nil {
		return err
	}
	f := &upgradeProgress{Progress: kube.Progress{Out: u.out}, digest: u.archive.Digest, generation: generation, uploaded: u.uploads()}
	return u.cluster.FollowCollection(ctx, u.resource(), f.observe)
}

// uploads says whether the archive is a file.
func (u *upgrading) uploads() bool { return author.ParseAddress(u.to) == nil }

// apply writes the spec and uploads the archive if it is a file. It returns the generation of the spec.
func (u *upgrading) apply(ctx context.Context) (int64, error) {
	if !u.uploads() {
		return u.write(ctx)
	}
	manager, stop, err := u.manager.reach(ctx, u.cluster)
	if err != nil {
		return 0, err
	}
	defer stop()
	generation, err := u.write(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := manager.upload(ctx, u.to, u.resource()); err != nil {
		return 0, fmt.Errorf("%w; the installed version keeps running, and spec.digest of OperatorCollection %q is that of the archive: upload it with `kubectl collection push`", err, u.target)
	}
	return generation, nil
}

// resource is the OperatorCollection.
func (u *upgrading) resource() kube.Resource {
	return kube.OperatorCollectionOf(u.cluster.Namespace, u.target)
}

// load reads the OperatorCollection and the archives.
func (u *upgrading) load(ctx context.Context, cmd *cobra.Command) (err error) {
	if u.oc, err = readOperatorCollection(ctx, u.cluster, u.resource()); err != nil {
		return err
	}
	if u.archive, err = loadArchive(ctx, u.to); err != nil {
		return author.Refused(cmd, author.DisplayPath(u.to), err)
	}
	id := u.archive.Collection.ID()
	if is := u.oc.Status.Collection; is != nil && !author.Serves(u.archive.Collection, model.ID{Domain: is.Domain, Name: is.Name}) {
		return fmt.Errorf("%s has collection %s, and OperatorCollection %q has %s/%s: create another OperatorCollection for it", author.DisplayPath(u.to), id, u.target, is.Domain, is.Name)
	}
	return u.loadInstalled(ctx)
}

// readOperatorCollection reads one of a cluster.
func readOperatorCollection(ctx context.Context, c *kube.Cluster, r kube.Resource) (*v2beta2.OperatorCollection, error) {
	object, err := c.Client(r).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	oc := &v2beta2.OperatorCollection{}
	return oc, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, oc)
}

// loadInstalled reads the archive of the installed version, if it is to be had.
func (u *upgrading) loadInstalled(ctx context.Context) error {
	from := u.from
	if from == "" {
		from = u.oc.Spec.CollectionURL
	}
	artifact := u.oc.Status.Artifact
	if from == "" || artifact == nil {
		return nil
	}
	loaded, err := loadArchive(ctx, from)
	switch {
	case err != nil && u.from != "":
		return fmt.Errorf("--from: %w", err)
	case err != nil:
		return nil //nolint:nilerr // Without it, only the rules of the API server apply.
	case loaded.Digest.String() == artifact.Digest:
		u.installed = loaded.Collection
	case u.from != "":
		return fmt.Errorf("--from: the archive has the digest %s, and the installed one %s", loaded.Digest, artifact.Digest)
	}
	return nil
}

// loadArchive reads an archive from a file or URL.
func loadArchive(ctx context.Context, from string) (*author.Source, error) {
	if author.ParseAddress(from) == nil {
		info, err := os.Stat(from)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return nil, fmt.Errorf("%s is a folder: build its archive with `kubectl collection build`", from)
		}
		return author.LoadSource(from)
	}
	fetcher := fetch.Fetcher{Proxy: http.ProxyFromEnvironment}
	file, err := fetcher.Fetch(ctx, fetch.Request{URL: from}, "")
	if err != nil {
		return nil, err
	}
	loaded, err := author.LoadSource(file.Path)
	return loaded, errors.Join(err, file.Remove())
}

// preflight prints what the version means for living custom resources. It returns errFindings if they block it.
func (u *upgrading) preflight(ctx context.Context) error {
	namespaces, err := u.namespaces(ctx)
	if err != nil {
		return err
	}
	report, err := author.EvaluateLive(ctx, u.cluster, u.installed, u.archive.Collection, namespaces)
	if err != nil {
		return err
	}
	if err := report.Print(u.out); err != nil {
		return err
	}
	if u.installed == nil && u.oc.Status.Artifact != nil {
		fmt.Fprintln(u.out, "The archive of the installed version cannot be read: removed fields and changed meanings are not known. Give it with --from.")
	}
	allowed := u.oc.Spec.Upgrade != nil && u.oc.Spec.Upgrade.Policy == v2beta2.UpgradeAllowBreaking
	switch {
	case report.Blocked > 0 && !allowed:
		fmt.Fprintln(u.out, "Nothing was changed.")
		return kit.ErrFindings
	case len(report.Unread) > 0 && u.dryRun:
		return errors.New("not all custom resources may be read: whether they fit is not known")
	}
	return nil
}

// namespaces are those in which the OperatorCollection is installed, sorted.
func (u *upgrading) namespaces(ctx context.Context) ([]string, error) {
	var namespaces []string
	err := kube.EachOf(ctx, u.cluster, v2beta2.GroupVersion.WithResource("suboperatorconfigs"), u.oc.Namespace, func(soc *v2beta2.SubOperatorConfig) error {
		if soc.Spec.OperatorCollection != u.oc.Name {
			return nil
		}
		for _, installation := range soc.Status.Installations {
			namespaces = append(namespaces, installation.Namespace)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list SubOperatorConfigs in namespace %q: %w", u.oc.Namespace, err)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

// write writes the version into the spec, and returns the generation with it. The API server refuses it if the
// OperatorCollection was changed since it was read.
func (u *upgrading) write(ctx context.Context) (int64, error) {
	spec := map[string]any{"digest": u.archive.Digest.String(), "collectionURL": nil}
	if !u.uploads() {
		spec["collectionURL"] = u.to
	}
	patch, err := render.JSON(map[string]any{
		"metadata": map[string]any{"resourceVersion": u.oc.ResourceVersion, "uid": u.oc.UID}, "spec": spec,
	}, "")
	if err != nil {
		return 0, err
	}
	r := u.resource()
	object, err := u.cluster.Client(r).Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	if apierrors.IsConflict(err) {
		return 0, fmt.Errorf("%s was changed in the meantime: nothing was changed: try again", r)
	}
	if err != nil {
		return 0, err
	}
	return object.GetGeneration(), nil
}

// upgradeProgress prints what happens to an OperatorCollection until a version is installed or cannot be.
type upgradeProgress struct {
	kube.Progress
	digest     digest.Digest
	generation int64
	// uploaded says that the archive was uploaded: a status that does not consider it says nothing.
	uploaded bool
}

// observe reports whether the version is installed. The error is why it cannot be.
func (p *upgradeProgress) observe(oc *v2beta2.OperatorCollection) (installed bool, err error) {
	if oc == nil {
		return false, errors.New("the OperatorCollection was deleted")
	}
	ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady)
	if ready == nil || oc.Status.ObservedGeneration < p.generation {
		return false, nil
	}
	has := oc.Status.Artifact != nil && oc.Status.Artifact.Digest == p.digest.String()
	if p.uploaded && !has && oc.Status.ObservedUpload != p.digest.String() {
		return false, nil
	}
	p.Print(ready.Reason + ": " + ready.Message)
	switch {
	case has && ready.Status == metav1.ConditionTrue:
		return true, nil
	case ready.Reason == v2beta2.ReasonUpgradeBlocked || ready.Reason == v2beta2.ReasonUpgradeStopped,
		meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionUpgradeBlocked),
		meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionStalled):
		return false, kit.ErrFindings
	}
	return false, nil
}
