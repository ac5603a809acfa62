package customresourcedefinition

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const (
	// pagesPerSecond limits how many pages of custom resources are rewritten, of all CRDs together.
	pagesPerSecond = 1
	// rewriteAgain is the delay before custom resources are rewritten again of which some were refused.
	rewriteAgain = 10 * time.Minute
	// pageAgain is the delay before a page is rewritten again that could not be read or written.
	pageAgain = 10 * time.Second
	// maxRetireDelay bounds the delay before a CRD is looked at again.
	maxRetireDelay = 6 * time.Hour
)

// retire writes planned CRDs with each version in its stage, and rewrites a page of custom resources that a version waits for.
func (r *Reconciler) retire(ctx context.Context, s *crdplan.DefinitionScope, plan []crd.Planned) error {
	now, next := time.Now(), time.Time{}
	retired, err := r.retirements(ctx, s, plan, now)
	if err != nil {
		return err
	}
	for i := range plan {
		plan[i].CRD = retired[i].CRD
		next = earlier(next, retired[i].Next)
	}
	if err := r.write(ctx, s, plan); err != nil {
		return err
	}
	for i := range retired {
		if !retired[i].Rewrite {
			continue
		}
		s.Unsettled = true
		again, err := r.rewrite(ctx, plan[i].CRD, retired[i].Forget)
		if err != nil {
			return err
		}
		s.Written(plan[i].CRD)
		next = earlier(next, again)
	}
	if !next.IsZero() {
		s.Again = min(max(time.Until(next), time.Second), maxRetireDelay)
	}
	return nil
}

// retirements bring the versions of planned CRDs into their stages. If a version of one of them leaves a stage, what is in use is read
// live: the cache may lack what began to use it.
func (r *Reconciler) retirements(ctx context.Context, s *crdplan.DefinitionScope, plan []crd.Planned, now time.Time) ([]crd.Retirement, error) {
	inUse := &imports.ArchivesInUse{Key: r.Collections.Key, Collections: s.All}
	socs := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, socs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	inUse.Configs = socs.Items
	retired, leaves := r.retireUnused(s, plan, inUse, now)
	if !leaves {
		return retired, nil
	}
	inUse, err := imports.ListArchivesInUse(ctx, r.Reader, r.Collections.Key)
	if err != nil {
		return nil, err
	}
	retired, _ = r.retireUnused(s, plan, inUse, now)
	return retired, nil
}

// retireUnused also reports whether a version of a CRD is retired further than it was.
func (r *Reconciler) retireUnused(s *crdplan.DefinitionScope, plan []crd.Planned, inUse *imports.ArchivesInUse, now time.Time) (retired []crd.Retirement, further bool) {
	facts := crd.RetireFacts{Ages: r.VersionAges, Used: inUse.Of(s.ID)}
	for _, version := range s.Versions {
		facts.Used = append(facts.Used, crd.Use{Digest: version.Digest, Version: version.Collection.APIVersion()})
	}
	for i := range plan {
		one := crd.Retire(plan[i].CRD, facts, now)
		retired = append(retired, one)
		further = further || one.Rewrite || crd.IsRetiredFurther(plan[i].CRD, one.CRD)
	}
	return retired, further
}

// earlier returns the earlier one of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// rewrite rewrites the next page of the custom resources of a CRD. After the last one, the CRD says that none is stored in an old version.
// What could not be rewritten is reported, and tried again later. It returns when it has to go on, or zero if the CRD was changed,
// which triggers a reconcile.
func (r *Reconciler) rewrite(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, forget []string) (time.Time, error) {
	recorded := crd.RewritingOf(definition)
	if recorded == nil {
		recorded = crd.BeginRewriting(definition, forget)
	}
	now := time.Now()
	if again := pace.Later(recorded.Again, r.pageTime(definition.Name)); again.After(now) {
		return again, nil
	}
	if !r.pages.TryAccept() {
		return now.Add(time.Second), nil
	}
	r.pageAgain.Delete(definition.Name)
	begun := *recorded
	recorded.Again = time.Time{}
	err := (&instances.Finder{Client: r.Client, Reader: r.Reader}).Rewrite(ctx, definition, recorded)
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	var again time.Time
	switch {
	case err != nil:
		// Until then, the pages of other CRDs have their turn.
		recorded.Problem, again = printable.Line(err.Error(), status.MaxEventBytes), now.Add(pageAgain)
		r.pageAgain.Store(definition.Name, again)
	case recorded.Continue == "" && recorded.Failed == 0:
		return time.Time{}, r.finishRewriting(ctx, definition, recorded)
	case recorded.Continue == "":
		recorded.Fail(now.Add(rewriteAgain))
	}
	if equality.Semantic.DeepEqual(*recorded, begun) {
		return again, nil
	}
	before := definition.DeepCopy()
	recorded.Record(definition)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, definition, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
		return time.Time{}, fmt.Errorf("recording on CRD %q how far its custom resources are rewritten: %w", definition.Name, err)
	}
	return again, nil
}

// pageTime is the time from which on the page of a CRD may be repeated, or zero.
func (r *Reconciler) pageTime(name string) time.Time {
	found, _ := r.pageAgain.Load(name)
	again, _ := found.(time.Time)
	return again
}

func (r *Reconciler) finishRewriting(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, recorded *crd.Rewriting) error {
	if len(recorded.Forget) > 0 {
		before := definition.DeepCopy()
		crd.Forgotten(definition, recorded.Forget)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, definition, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
			return fmt.Errorf("recording on CRD %q which versions no custom resource names: %w", definition.Name, err)
		}
	}
	definition.Status.StoredVersions = recorded.StoredVersions(definition)
	if err := r.Client.Status().Update(ctx, definition, client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("writing the status of CRD %q: %w", definition.Name, err)
	}
	return nil
}
