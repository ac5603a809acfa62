// Package preflight evaluates the custom resources in a cluster against another version of their collection, before anything changes.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const (
	// pageSize is the number of resources that are read at once.
	pageSize = 500
	// maxProblems limits the problems of each sort in a Report.
	maxProblems = 50
	// maxNamed limits the resources in the message of a Report.
	maxNamed = 5
)

// Report is what another version of a collection means for living custom resources.
type Report struct {
	// Version is the version that they were evaluated against.
	Version string `json:"version"`
	// Resources is the number of custom resources that were read.
	Resources int `json:"resources"`
	// Blocked is the number of those that the version breaks. Problems says why: at most 50, in the order in which they were read.
	Blocked  int               `json:"blocked"`
	Problems []upgrade.Problem `json:"problems"`
	// Warned is the number of those about which there is something else to say. Warnings has at most 50.
	Warned   int               `json:"warned"`
	Warnings []upgrade.Problem `json:"warnings"`
}

// Kinds are the kinds of CRDs, each in a version that the API server serves: the stored one if that is served. A CRD that is not
// served has no kind.
func Kinds(definitions []apiextensionsv1.CustomResourceDefinition) []schema.GroupVersionKind {
	kinds := make([]schema.GroupVersionKind, 0, len(definitions))
	for i := range definitions {
		spec := &definitions[i].Spec
		version := ""
		for _, v := range spec.Versions {
			if v.Served && (version == "" || v.Storage) {
				version = v.Name
			}
		}
		if version != "" {
			kinds = append(kinds, schema.GroupVersionKind{Group: spec.Group, Version: version, Kind: spec.Names.Kind})
		}
	}
	return kinds
}

// Check reads the custom resources of kinds in namespaces, in pages of 500, and evaluates each. The reader must not be a
// cache. The namespace "" stands for all of them. It fails if it is not certain that all resources were read: also if the API server
// does not serve a kind whose CRD exists.
func Check(ctx context.Context, reader client.Reader, evaluator *upgrade.Evaluator, kinds []schema.GroupVersionKind, namespaces []string) (Report, error) {
	report := Report{Version: evaluator.Version()}
	for _, kind := range kinds {
		for _, namespace := range namespaces {
			if err := report.read(ctx, reader, evaluator, kind, namespace); err != nil {
				return report, err
			}
		}
	}
	return report, nil
}

func (r *Report) read(ctx context.Context, reader client.Reader, evaluator *upgrade.Evaluator, kind schema.GroupVersionKind, namespace string) error {
	next := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := reader.List(ctx, list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next))
		if err != nil {
			return unread(ctx, reader, err, kind, namespace)
		}
		for i := range list.Items {
			r.Add(evaluator.Resource(&list.Items[i]))
		}
		if next = list.GetContinue(); next == "" {
			return nil
		}
	}
}

// unread returns why custom resources could not be read, or nil if there are none for sure.
func unread(ctx context.Context, reader client.Reader, err error, kind schema.GroupVersionKind, namespace string) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		err = apply.ConfirmAbsence(ctx, reader, err)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, apply.ErrNotServed):
		return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "it is not known whether there are custom resources of %w", err)
	}
	err = fmt.Errorf("list %s of version %s%s: %w", kind.Kind, kind.Version, inNamespace(namespace), err)
	if apierrors.IsForbidden(err) {
		return &status.Error{Reason: v2beta2.ReasonPermissionsNotGranted, RetryAfter: intervals.Missing, Err: err}
	}
	return err
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", namespace)
}

// Add counts a custom resource with its problems.
func (r *Report) Add(problems []upgrade.Problem) {
	r.Resources++
	blocked, warned := false, false
	for _, p := range problems {
		if p.Blocks() {
			blocked = true
			r.Problems = appendBounded(r.Problems, p)
			continue
		}
		warned = true
		r.Warnings = appendBounded(r.Warnings, p)
	}
	if blocked {
		r.Blocked++
	}
	if warned {
		r.Warned++
	}
}

func appendBounded(problems []upgrade.Problem, p upgrade.Problem) []upgrade.Problem {
	if len(problems) >= maxProblems {
		return problems
	}
	return append(problems, p)
}

// Merge adds what another report found about other custom resources.
func (r *Report) Merge(other Report) {
	r.Version = other.Version
	r.Resources += other.Resources
	r.Blocked += other.Blocked
	r.Warned += other.Warned
	for _, p := range other.Problems {
		r.Problems = appendBounded(r.Problems, p)
	}
	for _, p := range other.Warnings {
		r.Warnings = appendBounded(r.Warnings, p)
	}
}

// Err is an error with the reason UpgradeBlocked if the version breaks a custom resource, and nil otherwise. It is retried after a
// minute, as nobody tells when resources are changed.
func (r Report) Err() error {
	if r.Blocked == 0 {
		return nil
	}
	named, more := r.firstProblems(), ""
	if rest := r.Blocked - len(named); rest > 0 {
		more = fmt.Sprintf("; and %d more", rest)
	}
	return status.Waiting(v2beta2.ReasonUpgradeBlocked, intervals.Missing,
		"version %s does not fit %d of %d custom resources: %s%s. Change or delete them, or set spec.upgrade.policy to AllowBreaking",
		r.Version, r.Blocked, r.Resources, strings.Join(named, "; "), more)
}

// firstProblems returns the first problem of each of the first resources that block.
func (r Report) firstProblems() []string {
	var texts []string
	var last upgrade.Problem
	for _, p := range r.Problems {
		if p.Kind == last.Kind && p.Namespace == last.Namespace && p.Name == last.Name {
			continue
		}
		if len(texts) == maxNamed {
			break
		}
		last, texts = p, append(texts, p.String())
	}
	return texts
}
