package reader

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/snapshot"
)

const (
	// maxLogLines is the number of lines of a container that are read at most, and maxLogRead that of bytes.
	maxLogLines = 10_000
	maxLogRead  = 16 << 20
	// maxLogBytes is what is kept of them: the end.
	maxLogBytes = 1 << 20
	// maxLogPods is the number of pods whose logs are read.
	maxLogPods = 100
)

// Logs reads the end of the logs of the pods of a snapshot, those of containers that were restarted included. It adds to Unread what
// could not be read.
func Logs(ctx context.Context, core rest.Interface, s *snapshot.Snapshot) []snapshot.Log {
	pods := snapshot.Typed[corev1.Pod](s, snapshot.Pod)
	if len(pods) > maxLogPods {
		s.Unread = append(s.Unread, fmt.Sprintf("only the logs of %d of %d pods were read: give a namespace with -n", maxLogPods, len(pods)))
		pods = pods[:maxLogPods]
	}
	var (
		group errgroup.Group
		mutex sync.Mutex
		logs  []snapshot.Log
	)
	group.SetLimit(maxConcurrentRequests)
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			for _, previous := range []bool{true, false} {
				if previous && container.RestartCount == 0 {
					continue
				}
				group.Go(func() error {
					text, err := readLog(ctx, core, pod, &corev1.PodLogOptions{Container: container.Name, Previous: previous})
					mutex.Lock()
					defer mutex.Unlock()
					switch {
					case err == nil:
						logs = append(logs, snapshot.Log{Namespace: pod.Namespace, Pod: pod.Name, Container: container.Name, Previous: previous, Text: text})
					case !apierrors.IsBadRequest(err): // The container has not started.
						s.Unread = append(s.Unread, unreadable(err, "the logs of pod "+pod.Name, pod.Namespace))
					}
					return nil
				})
			}
		}
	}
	_ = group.Wait()
	slices.SortFunc(logs, func(a, b snapshot.Log) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container))
	})
	s.Finish()
	return logs
}

func readLog(ctx context.Context, core rest.Interface, pod *corev1.Pod, options *corev1.PodLogOptions) ([]byte, error) {
	options.TailLines, options.Timestamps = ptr.To[int64](maxLogLines), false
	stream, err := core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("log").
		VersionedParams(options, clientgoscheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return tail(io.LimitReader(stream, maxLogRead), maxLogBytes)
}

// tail returns the last lines of what a reader has, at most limit bytes.
func tail(r io.Reader, limit int) ([]byte, error) {
	kept := make([]byte, 0, 2*limit+32<<10)
	buffer := make([]byte, 32<<10)
	isCut := false
	for {
		n, err := r.Read(buffer)
		kept = append(kept, buffer[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(kept) > 2*limit {
			kept, isCut = kept[:copy(kept, kept[len(kept)-limit:])], true
		}
	}
	if len(kept) > limit {
		kept, isCut = kept[len(kept)-limit:], true
	}
	if isCut {
		_, kept, _ = bytes.Cut(kept, []byte("\n"))
	}
	return kept, nil
}

// Events reads the events about the objects of a snapshot.
func Events(ctx context.Context, clients Clients, s *snapshot.Snapshot) {
	c := &collecting{dynamic: clients.Dynamic, core: clients.Core, snapshot: s}
	known := map[string]bool{}
	namespaces := []string{}
	for _, kind := range s.Kinds() {
		for _, object := range s.Of(kind) {
			known[kind.Kind+"/"+object.GetNamespace()+"/"+object.GetName()] = true
			if namespace := object.GetNamespace(); namespace != metav1.NamespaceAll {
				namespaces = append(namespaces, namespace)
			}
		}
	}
	slices.Sort(namespaces)
	var queries []query
	for _, namespace := range slices.Compact(namespaces) {
		queries = append(queries, query{resource: core("events"), namespace: namespace})
	}
	c.read(ctx, queries)
	for _, event := range snapshot.Typed[corev1.Event](s, snapshot.Event) {
		about := event.InvolvedObject
		if !known[about.Kind+"/"+about.Namespace+"/"+about.Name] {
			s.Remove(snapshot.Event, event.Namespace, event.Name)
		}
	}
	s.Finish()
}
