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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

const (
	// maxLogLines is the number of lines of a container that are read at most, and maxLogRead that of bytes.
	maxLogLines = 10_000
	maxLogRead  = 16 << 20
	// maxLogBytes is what is kept of them: the end.
	maxLogBytes = 1 << 20
	// maxLogPods is the number of pods whose logs are read.
	maxLogPods = 100
	// maxLogsBytes is what is kept of all logs together. Those that are read at the same time as the last one may exceed it.
	maxLogsBytes = 128 << 20
	// maxEvents is the number of events that are kept.
	maxEvents = 10_000
)

// Logs reads the end of the logs of the pods of a snapshot, those of containers that were restarted included. It adds to Unread what
// could not be read.
func Logs(ctx context.Context, core rest.Interface, s *snapshot.Snapshot) []snapshot.Log {
	pods := snapshot.Typed[corev1.Pod](s, snapshot.Pod)
	if len(pods) > maxLogPods {
		s.Unread = append(s.Unread, fmt.Sprintf("only the logs of %d of %d pods were read: give a namespace with -n", maxLogPods, len(pods)))
		pods = pods[:maxLogPods]
	}
	l := &logs{core: core, snapshot: s}
	var group errgroup.Group
	group.SetLimit(maxConcurrentRequests)
	for _, pod := range pods {
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			for _, previous := range []bool{true, false} {
				if previous && container.RestartCount == 0 {
					continue
				}
				group.Go(func() error {
					l.read(ctx, snapshot.Log{Namespace: pod.Namespace, Pod: pod.Name, Container: container.Name, Previous: previous})
					return nil
				})
			}
		}
	}
	_ = group.Wait()
	slices.SortFunc(l.logs, func(a, b snapshot.Log) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container),
			previousFirst(a, b))
	})
	s.Finish()
	return l.logs
}

// logs reads logs.
type logs struct {
	core rest.Interface

	mutex    sync.Mutex
	snapshot *snapshot.Snapshot
	logs     []snapshot.Log
	size     int
}

// read reads a log, if there is room.
func (l *logs) read(ctx context.Context, log snapshot.Log) {
	if l.isFull() {
		return
	}
	text, err := readLog(ctx, l.core, log)
	switch {
	case err == nil:
		l.mutex.Lock()
		defer l.mutex.Unlock()
		log.Text = text
		l.size += len(text)
		l.logs = append(l.logs, log)
	case apierrors.IsNotFound(err), apierrors.IsBadRequest(err): // The container has not started, or the pod is gone.
	default:
		l.mutex.Lock()
		defer l.mutex.Unlock()
		unreadable(l.snapshot, err, "the logs of pod "+log.Pod, log.Namespace)
	}
}

// isFull reports whether there is no room, and records that something is missing for that reason.
func (l *logs) isFull() bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.size < maxLogsBytes {
		return false
	}
	l.snapshot.Unread = append(l.snapshot.Unread, "not all logs were read, since they are too large together: give a namespace with -n")
	return true
}

func previousFirst(a, b snapshot.Log) int {
	switch {
	case a.Previous == b.Previous:
		return 0
	case a.Previous:
		return -1
	}
	return 1
}

func readLog(ctx context.Context, core rest.Interface, log snapshot.Log) ([]byte, error) {
	options := &corev1.PodLogOptions{Container: log.Container, Previous: log.Previous, TailLines: ptr.To[int64](maxLogLines)}
	stream, err := core.Get().Namespace(log.Namespace).Resource("pods").Name(log.Pod).SubResource("log").
		VersionedParams(options, clientgoscheme.ParameterCodec).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	return tail(io.LimitReader(stream, maxLogRead), maxLogBytes)
}

// tail returns the last lines of what a reader has, at most limit bytes. They have no more memory than they need.
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
	own := make([]byte, len(kept)) // Clone rounds the capacity up.
	copy(own, kept)
	return own, nil
}

// Events reads the events about the objects of a snapshot.
func Events(ctx context.Context, clients Clients, s *snapshot.Snapshot) {
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
	kept := 0
	c := &collecting{dynamic: clients.Dynamic, core: clients.Core, snapshot: s, keeps: func(event *unstructured.Unstructured) bool {
		about, _, _ := unstructured.NestedStringMap(event.Object, "involvedObject")
		if !known[about["kind"]+"/"+about["namespace"]+"/"+about["name"]] {
			return false
		}
		kept++
		return kept <= maxEvents
	}}
	c.read(ctx, queries)
	if kept > maxEvents {
		c.unread(fmt.Sprintf("only %d of %d events were kept: give a namespace with -n", maxEvents, kept))
	}
	s.Finish()
}
