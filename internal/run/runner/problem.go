package runner

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/podclient"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// errTerminating means that this pod starts no run any more.
var errTerminating = errors.New("is terminating: the next pod starts it")

// passes reports whether an error ends without anybody doing something: it is only logged.
func passes(err error) bool {
	var network *url.Error
	return errors.Is(err, errTerminating) || errors.As(err, &network) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err)
}

// showUnusable lets status say why the gate cannot be used. That this pod is the one of the operator was known when it started.
func showUnusable(ctx context.Context, call podfiles.Call, problem error) error {
	client, err := podclient.New()
	if err != nil {
		return err
	}
	kind, namespace, name := call.Resource()
	resource := resource{client: client.Resource(kind.Resource).Namespace(namespace), name: name}
	return showProblem(ctx, call, resource, problem, func(live *unstructured.Unstructured) runstatus.Resource {
		return runstatus.Resource{
			Kind: kind.Kind, Name: name, Generation: live.GetGeneration(), Deleting: deleting(live),
			Authors: runstatus.AuthorsOf(live.GetManagedFields()), Now: time.Now(),
		}
	})
}

// show lets status say why no run of the resource can start, unless that passes, or another pod is the one of the operator.
func (r *scope) show(ctx context.Context, problem error) error {
	if r.installation == "" || passes(problem) {
		return nil
	}
	return showProblem(ctx, r.call, r.resource, problem, r.statusResource)
}

// showProblem lets status say why no run can start, unless a run is in progress, or its outcome is not written yet.
func showProblem(
	ctx context.Context, call podfiles.Call, resource resource, problem error, about func(*unstructured.Unstructured) runstatus.Resource,
) error {
	lock, err := podfiles.LockFolder(call.Dir)
	if lock == nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	live, err := resource.get(ctx)
	if err != nil {
		return err
	}
	status := statusOf(live)
	if run, _, _ := unstructured.NestedMap(status, "lastRun"); run != nil && run["outcome"] == nil {
		return nil
	}
	since := waitingSince(time.Now(), runstatus.WaitingSince(status))
	wanted := runstatus.Wait(status, about(live), runstatus.Waiting{
		Reason: string(reasonCannotStart), Message: problemMessage(problem), Since: metav1.NewTime(since),
	})
	if runstatus.Equal(status, wanted) {
		return nil
	}
	_, err = resource.setStatus(ctx, live, wanted)
	return err
}

var (
	folders        = regexp.MustCompile(`/[^\s:"]*/`)
	temporaryFiles = regexp.MustCompile(`\.new-[0-9]+`)
)

// problemMessage is the same for each attempt, and names no folder of the pod.
func problemMessage(problem error) string {
	text := temporaryFiles.ReplaceAllString(folders.ReplaceAllString(problem.Error(), ""), "a file")
	return fmt.Sprintf("no run can start: %s: if it stays so, see the log of the operator's pod", text)
}
