package customresourcedefinition

import (
	"context"
	"fmt"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
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

// pages are those of custom resources that are rewritten, of all CRDs together.
type pages struct {
	limit flowcontrol.PassiveRateLimiter
	// again has the [time.Time] from which on the page of a CRD may be repeated that could not be read or written, by the name of the CRD.
	again sync.Map
}

func newPages() *pages {
	return &pages{limit: flowcontrol.NewTokenBucketPassiveRateLimiter(pagesPerSecond, 1)}
}

// timeOf is the time from which on the page of a CRD may be repeated, or zero.
func (p *pages) timeOf(name string) time.Time {
	found, _ := p.again.Load(name)
	again, _ := found.(time.Time)
	return again
}

// retirer retires versions of CRDs, and rewrites custom resources that are stored in them.
type retirer struct {
	client client.Client
	reader client.Reader
	// key is that of the records of imports.
	key   endpoint.Key
	ages  crd.Ages
	pages *pages
}

// retire brings the versions of planned CRDs into their stages. If a version of one of them leaves a stage, what is in use is read
// live: the cache may lack what began to use it.
func (r *retirer) retire(ctx context.Context, inputs *crdplan.Inputs, versions []crd.Version, plan []crd.Planned) ([]crd.Retirement, error) {
	now := time.Now()
	retired, leaves := r.retireUnused(versions, plan, inputs.InUse(r.key), now)
	if !leaves {
		return retired, nil
	}
	inUse, err := imports.ListArchivesInUse(ctx, r.reader, r.key)
	if err != nil {
		return nil, err
	}
	retired, _ = r.retireUnused(versions, plan, inUse.Of(inputs.ID), now)
	return retired, nil
}

// retireUnused also reports whether a version of a CRD is retired further than it was.
func (r *retirer) retireUnused(versions []crd.Version, plan []crd.Planned, inUse []crd.Use, now time.Time) (retired []crd.Retirement, further bool) {
	facts := crd.RetireFacts{Ages: r.ages, Used: inUse}
	for _, version := range versions {
		facts.Used = append(facts.Used, crd.Use{Digest: version.Digest, Version: version.Collection.APIVersion()})
	}
	for i := range plan {
		one := crd.Retire(plan[i].CRD, facts, now)
		retired = append(retired, one)
		further = further || one.Rewrite || crd.IsRetiredFurther(plan[i].CRD, one.CRD)
	}
	return retired, further
}

// rewrite rewrites the next page of the custom resources of a CRD. After the last one, the CRD says that none is stored in an old version.
// What could not be rewritten is reported, and tried again later. It returns when it has to go on, or zero if the CRD was changed,
// which triggers a reconcile.
func (r *retirer) rewrite(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, forget []string) (time.Time, error) {
	recorded := crd.RewritingOf(definition)
	if recorded == nil {
		recorded = crd.BeginRewriting(definition, forget)
	}
	now := time.Now()
	if again := pace.Later(recorded.Again, r.pages.timeOf(definition.Name)); again.After(now) {
		return again, nil
	}
	if !r.pages.limit.TryAccept() {
		return now.Add(time.Second), nil
	}
	r.pages.again.Delete(definition.Name)
	begun := *recorded
	recorded.Again = time.Time{}
	err := (&instances.Finder{Client: r.client, Reader: r.reader}).Rewrite(ctx, definition, recorded)
	if ctx.Err() != nil {
		return time.Time{}, ctx.Err()
	}
	var again time.Time
	switch {
	case err != nil:
		// Until then, the pages of other CRDs have their turn.
		recorded.Problem, again = printable.Line(err.Error(), status.MaxEventBytes), now.Add(pageAgain)
		r.pages.again.Store(definition.Name, again)
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
	if err := r.client.Patch(ctx, definition, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
		return time.Time{}, fmt.Errorf("recording on CRD %q how far its custom resources are rewritten: %w", definition.Name, err)
	}
	return again, nil
}

func (r *retirer) finishRewriting(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, recorded *crd.Rewriting) error {
	if len(recorded.Forget) > 0 {
		before := definition.DeepCopy()
		crd.Forgotten(definition, recorded.Forget)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.client.Patch(ctx, definition, patch, client.FieldOwner(apply.FieldOwner)); err != nil {
			return fmt.Errorf("recording on CRD %q which versions no custom resource names: %w", definition.Name, err)
		}
	}
	definition.Status.StoredVersions = recorded.StoredVersions(definition)
	if err := r.client.Status().Update(ctx, definition, client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("writing the status of CRD %q: %w", definition.Name, err)
	}
	return nil
}

// earlier returns the earlier one of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
