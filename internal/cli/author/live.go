package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/explain"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
)

// LiveReport is what another version of a collection means for the custom resources of a cluster.
type LiveReport struct {
	preflight.Report
	// Unread says what could not be read.
	Unread []string `json:"unread"`
}

// liveEvaluation evaluates the custom resources of a cluster.
type liveEvaluation struct {
	reader client.Reader
	// was is nil if it is not known.
	was, is    *model.Collection
	namespaces []string
	report     *LiveReport
}

// EvaluateLive reads the custom resources of both versions of a collection in namespaces, and evaluates them.
func EvaluateLive(ctx context.Context, cluster *kube.Cluster, was, is *model.Collection, namespaces []string) (*LiveReport, error) {
	reader, err := cluster.Typed(apiextensionsv1.AddToScheme)
	if err != nil {
		return nil, err
	}
	served, err := cluster.Types()
	if err != nil {
		return nil, err
	}
	j := &liveEvaluation{reader: reader, was: was, is: is, namespaces: namespaces, report: &LiveReport{
		Report: preflight.Report{Version: is.Version.Original(), Problems: []upgrade.Problem{}, Warnings: []upgrade.Problem{}}, Unread: []string{},
	}}
	for _, group := range []string{is.Group(false), is.Group(true)} {
		if err := j.group(ctx, group, served); err != nil {
			return nil, err
		}
	}
	return j.report, nil
}

// group evaluates the custom resources of the kinds that the cluster serves in an API group.
func (j *liveEvaluation) group(ctx context.Context, group string, served []schema.GroupVersionResource) error {
	live := map[string]*apiextensionsv1.CustomResourceDefinition{}
	var kinds []schema.GroupVersionKind
	for _, r := range j.resources() {
		i := slices.IndexFunc(served, func(gvr schema.GroupVersionResource) bool { return gvr.Group == group && gvr.Resource == r.Plural() })
		if i < 0 {
			continue
		}
		definition, err := j.definition(ctx, served[i].GroupResource())
		if err != nil {
			return err
		}
		if definition != nil && !Serves(j.is, render.IDOf(definition.Labels)) {
			continue // Another collection has this kind.
		}
		live[r.Kind] = definition
		kinds = append(kinds, served[i].GroupVersion().WithKind(r.Kind))
	}
	if len(kinds) == 0 {
		return nil
	}
	planned, err := j.planned(group, live)
	if err != nil {
		return err
	}
	evaluator, err := upgrade.NewEvaluator(j.was, j.is, planned)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		for _, namespace := range j.namespaces {
			found, err := preflight.Check(ctx, j.reader, evaluator, []schema.GroupVersionKind{kind}, []string{namespace})
			if err != nil && !apierrors.IsForbidden(err) {
				return err
			}
			if err != nil {
				j.report.Unread = append(j.report.Unread, err.Error())
			}
			j.report.Merge(found)
		}
	}
	return nil
}

// resources are the kinds of both versions. A collection leaves kinds that it does not have to the one that it replaces.
func (j *liveEvaluation) resources() []model.Resource {
	all := slices.Clone(j.is.Resources)
	if j.was == nil || j.was.ID() != j.is.ID() {
		return all
	}
	for _, r := range j.was.Resources {
		if _, exists := j.is.Resource(r.Kind); !exists {
			all = append(all, r)
		}
	}
	return all
}

// definition returns a CRD, or nil for users who may not read it.
func (j *liveEvaluation) definition(ctx context.Context, resource schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	err := j.reader.Get(ctx, client.ObjectKey{Name: resource.String()}, definition)
	switch {
	case apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return definition, nil
}

// planned returns the CRDs of the new version as a cluster gets them, by kind. Those that may not be read are made of both
// archives. Versions that do not go together are for the comparison of the archives: here the new one stands alone.
func (j *liveEvaluation) planned(group string, live map[string]*apiextensionsv1.CustomResourceDefinition) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	wanted, err := render.CRDs(j.is, group)
	if err != nil {
		return nil, err
	}
	before := map[string]*apiextensionsv1.CustomResourceDefinition{}
	if j.was != nil {
		definitions, err := render.CRDs(j.was, group)
		if err != nil {
			return nil, err
		}
		for _, definition := range definitions {
			before[definition.Spec.Names.Kind] = definition
		}
	}
	planned := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, definition := range wanted {
		kind := definition.Spec.Names.Kind
		base := live[kind]
		if base == nil {
			base = before[kind]
		}
		merged, err := crd.Merge(base, []crd.Contribution{{Version: j.is.Version, CRD: definition}})
		var conflict *crd.Error
		if errors.As(err, &conflict) {
			merged, err = definition, nil
		}
		if err != nil {
			return nil, err
		}
		planned[kind] = merged
	}
	return planned, nil
}

// Print writes the report as text.
func (r *LiveReport) Print(w io.Writer) error {
	p := &explain.Page{}
	p.Title("Custom resources in the cluster")
	for _, problem := range r.Problems {
		p.Row(0, 4, "!", problem.String())
	}
	for _, problem := range r.Warnings {
		p.Row(0, 4, "", problem.String())
	}
	for _, problem := range r.Unread {
		p.Row(0, 4, "?", "not read: "+problem)
	}
	if len(r.Problems)+len(r.Warnings)+len(r.Unread) > 0 {
		p.Blank()
	}
	p.Text(0, fmt.Sprintf("%s read: version %s does not fit %d of them (!), and means a change for %d.",
		findings.Plural(r.Resources, "custom resource"), r.Version, r.Blocked, r.Warned))
	if r.Blocked > 0 {
		p.Text(0, "They block the upgrade unless spec.upgrade.policy is AllowBreaking. Change or delete them first.")
	}
	_, err := fmt.Fprint(w, p.String())
	return err
}

// Serves says whether a collection is the one that is installed, or replaces it.
func Serves(c *model.Collection, installed model.ID) bool {
	return installed == c.ID() || installed == c.Replaces && installed != model.ID{}
}
