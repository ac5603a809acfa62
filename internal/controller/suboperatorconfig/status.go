package suboperatorconfig

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// outcome is what the steps of one reconciliation have found and done. Status is computed from it.
type outcome struct {
	// served is the UID of the OperatorCollection if it is imported, also if it is suspended.
	served types.UID
	// suspended is true if the OperatorCollection is suspended: operators are only uninstalled.
	suspended bool
	// imported is nil until it is known.
	imported *imported
	// mappings of the spec that may be installed.
	mappings []v2beta2.NamespaceMapping
	// holds are nil until they are decided.
	holds holds
	// results of the installations, including those that are being removed.
	results []install.Result
	// problems of single namespaces or endpoints, which do not affect the others.
	problems []error
	// owned is why objects still have owner references of an earlier version. It is one of problems.
	owned error
	// before are the conditions before any step has written them.
	before []metav1.Condition
}

// reporter writes the status of SubOperatorConfigs.
type reporter struct {
	client   client.Client
	reader   client.Reader
	recorder events.EventRecorder
	// waits are those of all SubOperatorConfigs.
	waits *waits
}

// write computes the status from the outcome and from the error of the failed step, if any, and writes it.
func (r *reporter) write(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome, err error) (ctrl.Result, error) {
	if soc.DeletionTimestamp != nil && err == nil {
		return ctrl.Result{}, nil // The finalizer was removed: the object is deleted.
	}
	before := soc.DeepCopy()
	now := &soc.Status
	if o.owned == nil { // Otherwise it is tried again.
		now.OperatorCollectionUID = cmp.Or(o.served, now.OperatorCollectionUID)
	}
	setInstallations(now, soc, o.results)
	if o.suspended {
		if patchErr := status.Patch(ctx, r.client, soc, before); patchErr != nil {
			return status.Result(patchErr)
		}
		o.problems = []error{o.owned}
		return status.Result(o.join(soc, nil))
	}
	migrating := r.describeMigration(ctx, soc, o, before)
	err = o.describe(soc, err)
	writer := status.Writer{
		Client: r.client, Recorder: r.recorder, Action: "Reconcile", Before: &o.before, BecameReady: metrics.BecameReady("SubOperatorConfig"),
	}
	problem := status.AsError(err)
	result, err := writer.Write(ctx, soc, before, err)
	if problem != nil && problem.Reason == v2beta2.ReasonUpgradeBlocked {
		return result, err // Users change what blocks an upgrade, and are told that it is checked every minute.
	}
	if migrating && err == nil && (result.RequeueAfter == 0 || result.RequeueAfter > intervals.Migration) {
		result.RequeueAfter = intervals.Migration
	}
	text := now.Message
	if migrated := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionMigrated); migrated != nil {
		text += migrated.Message
	}
	result.RequeueAfter = r.waits.delay(soc.UID, text, result.RequeueAfter, time.Now())
	return result, err
}

// setInstallations updates the entries of installations in a status.
func setInstallations(now *v2beta2.SubOperatorConfigStatus, soc *v2beta2.SubOperatorConfig, results []install.Result) {
	for _, result := range results {
		was := install.Recorded(soc, result.Namespace)
		now.Installations = install.WithoutInstallation(now.Installations, result.Namespace)
		if result.Status != nil {
			result.Status.ReadySince = readySince(was, result.Status)
			now.Installations = install.WithInstallation(now.Installations, *result.Status)
		}
	}
}

// describe sets what the status says of the results and the error of the failed step, if any, and returns the error of all.
func (o *outcome) describe(soc *v2beta2.SubOperatorConfig, err error) error {
	now := &soc.Status
	now.ObservedGeneration = soc.Generation
	if o.imported != nil && err == nil {
		o.describeInstallations(now)
	}
	if o.holds != nil {
		upgradecheck.SetUpgradeBlocked(&now.Conditions, soc.Generation, o.upgradeBlock())
	}
	err = o.join(soc, err)
	status.SetReady(&now.Conditions, soc.Generation, err, o.readyMessage())
	now.Message = status.ReadyMessage(now.Conditions)
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	return err
}

// join joins the errors of the steps. What keeps an installation from being applied comes first. While the object is being
// deleted, problems of its mappings do not matter.
func (o *outcome) join(soc *v2beta2.SubOperatorConfig, err error) error {
	blocking, others := []error{err}, slices.Clone(o.problems)
	if soc.DeletionTimestamp != nil {
		others = nil
	}
	for _, result := range o.results {
		if result.Applied {
			others = append(others, result.Err)
		} else {
			blocking = append(blocking, result.Err)
		}
	}
	return status.Join(append(blocking, others...)...)
}

// describeInstallations sets version and digest once all namespaces have them, warnings once all are applied as planned, and the object
// names that clients read.
func (o *outcome) describeInstallations(now *v2beta2.SubOperatorConfigStatus) {
	if !slices.ContainsFunc(o.results, o.isOutdated) {
		now.Version, now.Digest = o.imported.collection.Version.String(), o.imported.oc.Status.Artifact.Digest
	}
	if !slices.ContainsFunc(o.results, func(r install.Result) bool { return !r.Applied && mapping.Contains(o.mappings, r.Namespace) }) {
		now.ClusterServiceVersion, now.Packages = o.namesInOLM()
		var warnings []string
		for _, result := range o.results {
			warnings = append(warnings, result.Warnings...)
		}
		now.Warnings = boundWarnings(warnings)
	}
	now.CustomResourceDefinition = nil
	for _, resource := range o.imported.collection.Resources {
		now.CustomResourceDefinition = append(now.CustomResourceDefinition, v2beta2.NamedObject{
			Metadata: v2beta2.NamedObjectMeta{Name: resource.Plural() + "." + o.imported.group()},
		})
	}
}

// isOutdated reports whether a mapped namespace does not have what the OperatorCollection has imported.
func (o *outcome) isOutdated(result install.Result) bool {
	return mapping.Contains(o.mappings, result.Namespace) &&
		(!result.Applied || result.Status.Digest != o.imported.oc.Status.Artifact.Digest)
}

// namesInOLM returns the names of the ClusterServiceVersion and the package, if OLM installed the operator in any namespace.
func (o *outcome) namesInOLM() (*v2beta2.NamedObject, []string) {
	if !slices.ContainsFunc(o.results, func(r install.Result) bool { return r.Applied && r.Status.Install == v2beta2.InstallOLM }) {
		return nil, nil
	}
	return &v2beta2.NamedObject{Metadata: v2beta2.NamedObjectMeta{Name: o.imported.collection.CSVName()}}, []string{o.imported.collection.OperatorName()}
}

// boundWarnings sorts warnings, removes duplicates from several namespaces, and cuts the list after [upgradecheck.MaxWarnings].
func boundWarnings(warnings []string) []string {
	warnings = slices.Compact(slices.Sorted(slices.Values(warnings)))
	if len(warnings) <= upgradecheck.MaxWarnings {
		return warnings
	}
	return append(warnings[:upgradecheck.MaxWarnings:upgradecheck.MaxWarnings], fmt.Sprintf("%d more warnings", len(warnings)-upgradecheck.MaxWarnings))
}

func (o *outcome) readyMessage() string {
	var namespaces []string
	for _, result := range o.results {
		if result.Applied {
			namespaces = append(namespaces, result.Namespace)
		}
	}
	if len(namespaces) == 0 {
		return "no namespace is mapped"
	}
	return fmt.Sprintf("version %s runs in namespace %s", o.imported.collection.Version, strings.Join(namespaces, ", "))
}

// upgradeBlock returns why custom resources block another version, in a namespace or for the OperatorCollection, or nil.
func (o *outcome) upgradeBlock() error {
	for _, m := range o.mappings {
		if blocked := upgradecheck.UpgradeBlock(o.holds[m.Namespace]); blocked != nil {
			return blocked
		}
	}
	oc := o.imported.oc
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	if imported != nil && imported.Status == metav1.ConditionFalse && imported.Reason == v2beta2.ReasonUpgradeBlocked {
		return fmt.Errorf("OperatorCollection %q: %s", oc.Name, imported.Message)
	}
	return nil
}

// readySince returns since when an installation is ready with its digest, or nil if it is not. was is its former state, or nil.
func readySince(was, is *v2beta2.InstallationStatus) *metav1.Time {
	switch {
	case !is.Ready:
		return nil
	case was != nil && was.Ready && was.Digest == is.Digest && was.ReadySince != nil:
		return was.ReadySince
	}
	now := metav1.Now().Rfc3339Copy()
	return &now
}

// waits let the delays grow with which objects are looked at again that wait for what is not watched: a foreign object that is in the
// way, permissions that were bound without a label, playbooks that end, or what the Operator Lifecycle Manager does. They begin again
// when an object waits for something else. They are safe for concurrent use.
type waits struct{ since *lru.Cache }

// wait is what an object waits for.
type wait struct {
	text  string
	since time.Time
}

// maxWaits is the maximum number of objects of which is known since when they wait.
const maxWaits = 1 << 14

func newWaits() *waits { return &waits{since: lru.New(maxWaits)} }

// delay returns after which time an object is looked at again that waits for what a text says. That of a conflict does not grow.
func (w *waits) delay(object types.UID, text string, delay time.Duration, now time.Time) time.Duration {
	if delay <= 0 {
		w.since.Remove(object)
	}
	if delay <= intervals.Conflict {
		return delay
	}
	if found, ok := w.since.Get(object); ok && found.(wait).text == text {
		return status.Later(delay, now.Sub(found.(wait).since))
	}
	w.since.Add(object, wait{text: text, since: now})
	return delay
}

// migrationPage is the number of custom resources that are read at a time.
const migrationPage = 500

// migrationProgress counts the custom resources that an older version managed.
type migrationProgress struct {
	done, all int
	// failed are those whose migration playbook failed last.
	failed []string
}

// describeMigration sets the condition Migrated, and reports whether the custom resources have to be read again. They are read
// until all are migrated; afterwards only for another version, spec or mapping.
func (r *reporter) describeMigration(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome, before *v2beta2.SubOperatorConfig) (again bool) {
	if o.imported == nil {
		return false
	}
	now, c := &soc.Status, o.imported.collection
	if c.MigrationPlaybook == "" {
		meta.RemoveStatusCondition(&now.Conditions, v2beta2.ConditionMigrated)
		return false
	}
	version := c.Version.String()
	last := meta.FindStatusCondition(before.Status.Conditions, v2beta2.ConditionMigrated)
	if last != nil && last.Status == metav1.ConditionTrue && last.ObservedGeneration == soc.Generation && before.Status.Version == version {
		return false
	}
	var progress migrationProgress
	for _, m := range o.mappings {
		missing, err := r.countMigrated(ctx, o.imported, m.Namespace, &progress)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("The progress of the migration is not known: trying again", "namespace", m.Namespace, "error", err.Error())
			return true // The condition stays as it was.
		}
		installed := install.Recorded(soc, m.Namespace)
		again = again || missing && installed != nil && installed.Digest == o.imported.oc.Status.Artifact.Digest
	}
	status.SetCondition(&now.Conditions, v2beta2.ConditionMigrated, soc.Generation, progress.err(), progress.message(version))
	return again
}

// countMigrated adds the custom resources in a namespace, and reports whether any is still to be migrated.
func (r *reporter) countMigrated(ctx context.Context, is *imported, namespace string, p *migrationProgress) (missing bool, err error) {
	before := p.all - p.done
	for _, resource := range is.collection.Resources {
		if err := r.countMigratedOf(ctx, is, resource, namespace, p); err != nil {
			return false, err
		}
	}
	return p.all-p.done > before, nil
}

func (r *reporter) countMigratedOf(
	ctx context.Context, is *imported, resource model.Resource, namespace string, p *migrationProgress,
) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: is.group(), Version: is.collection.APIVersion(), Kind: resource.ListKind(),
	})
	for {
		err := r.reader.List(ctx, list, client.InNamespace(namespace), client.Limit(migrationPage), client.Continue(list.GetContinue()))
		if err != nil {
			return fmt.Errorf("listing %s in namespace %q: %w", resource.Plural(), namespace, err)
		}
		for i := range list.Items {
			p.add(&list.Items[i], is.collection.Version.String())
		}
		if list.GetContinue() == "" {
			return nil
		}
	}
}

// add counts a custom resource, unless it is being deleted: then it is not migrated.
func (p *migrationProgress) add(item *unstructured.Unstructured, version string) {
	if item.GetDeletionTimestamp() != nil {
		return
	}
	state, _ := item.Object["status"].(map[string]any)
	switch runstatus.MigrationTo(version, state) {
	case runstatus.MigrationDone:
		p.done++
		p.all++
	case runstatus.MigrationPending:
		p.all++
	case runstatus.MigrationFailed:
		p.all++
		p.failed = append(p.failed, fmt.Sprintf("%s %s/%s", item.GetKind(), item.GetNamespace(), item.GetName()))
	}
}

// err returns why not all custom resources are migrated, or nil.
func (p *migrationProgress) err() error {
	switch {
	case len(p.failed) > 0:
		return status.Waiting(v2beta2.ReasonMigrationFailed, intervals.Migration,
			"%d of %d custom resources are migrated; the migration playbook failed for %s: see their status, and run it again with "+
				"\"kubectl collection rerun\" or delete them, so that the others go on", p.done, p.all, status.JoinNames(p.failed))
	case p.done < p.all:
		return status.Waiting(v2beta2.ReasonMigrating, intervals.Migration, "%d of %d custom resources are migrated", p.done, p.all)
	}
	return nil
}

func (p *migrationProgress) message(version string) string {
	if p.all == 0 {
		return fmt.Sprintf("no custom resource has to be migrated to version %s", version)
	}
	return fmt.Sprintf("%d of %d custom resources are migrated to version %s", p.done, p.all, version)
}
