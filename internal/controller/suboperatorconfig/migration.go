package suboperatorconfig

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

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
func (r *Reconciler) describeMigration(ctx context.Context, s *configScope, before *v2beta2.SubOperatorConfig) (again bool) {
	if s.collection == nil {
		return false
	}
	now := &s.soc.Status
	if s.collection.MigrationPlaybook == "" {
		meta.RemoveStatusCondition(&now.Conditions, v2beta2.ConditionMigrated)
		return false
	}
	version := s.collection.Version.String()
	last := meta.FindStatusCondition(before.Status.Conditions, v2beta2.ConditionMigrated)
	if last != nil && last.Status == metav1.ConditionTrue && last.ObservedGeneration == s.soc.Generation && before.Status.Version == version {
		return false
	}
	var progress migrationProgress
	for _, m := range s.mappings {
		missing, err := r.countMigrated(ctx, s, m.Namespace, &progress)
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("The progress of the migration is not known: trying again", "namespace", m.Namespace, "error", err.Error())
			return true // The condition stays as it was.
		}
		installed := install.Recorded(s.soc, m.Namespace)
		again = again || missing && installed != nil && installed.Digest == s.oc.Status.Artifact.Digest
	}
	status.SetCondition(&now.Conditions, v2beta2.ConditionMigrated, s.soc.Generation, progress.err(), progress.message(version))
	return again
}

// countMigrated adds the custom resources in a namespace, and reports whether any is still to be migrated.
func (r *Reconciler) countMigrated(ctx context.Context, s *configScope, namespace string, p *migrationProgress) (missing bool, err error) {
	before := p.all - p.done
	for _, resource := range s.collection.Resources {
		if err := r.countMigratedOf(ctx, s, resource, namespace, p); err != nil {
			return false, err
		}
	}
	return p.all-p.done > before, nil
}

func (r *Reconciler) countMigratedOf(
	ctx context.Context, s *configScope, resource model.Resource, namespace string, p *migrationProgress,
) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: imports.GroupOf(s.oc, s.collection), Version: s.collection.APIVersion(), Kind: resource.ListKind(),
	})
	for {
		err := r.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(migrationPage), client.Continue(list.GetContinue()))
		if err != nil {
			return fmt.Errorf("listing %s in namespace %q: %w", resource.Plural(), namespace, err)
		}
		for i := range list.Items {
			p.add(&list.Items[i], s.collection.Version.String())
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
