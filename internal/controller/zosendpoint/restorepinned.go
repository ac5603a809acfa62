package zosendpoint

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

// annotationPinned records on a ZosEndpoint the host keys of its status, one per line after the host:port that they belong to:
// backups often omit status. Whoever may edit it may also edit spec.hostKeys.
const annotationPinned = "zoscb.ibm.com/pinned-host-keys"

// restorePinned returns the host keys to the status of a ZosEndpoint that was restored without one, before anything connects to it.
// A status in which a user has removed them is not empty: the next key is pinned then.
func (r *Reconciler) restorePinned(ctx context.Context, e *v2beta2.ZosEndpoint) error {
	if e.Status.ObservedGeneration != 0 || len(e.Status.HostKeys) > 0 || !pins(e) {
		return nil
	}
	keys := parsePinned(e.Annotations[annotationPinned], mapping.Address(e))
	if len(keys) == 0 {
		return nil
	}
	before := e.DeepCopy()
	e.Status.HostKeys, e.Status.PinnedFor = keys, mapping.Address(e)
	return status.Patch(ctx, r.Client, e, before)
}

// recordPinned sets or removes the annotation, so that it says what status says.
func (r *Reconciler) recordPinned(ctx context.Context, e *v2beta2.ZosEndpoint) error {
	pinned := formatPinned(e)
	if e.Annotations[annotationPinned] == pinned {
		return nil
	}
	before := e.DeepCopy()
	if pinned == "" {
		delete(e.Annotations, annotationPinned)
	} else {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, annotationPinned, pinned)
	}
	return client.IgnoreNotFound(r.Client.Patch(ctx, e, client.MergeFrom(before), client.FieldOwner(apply.FieldOwner)))
}

// pins reports whether the host keys of a ZosEndpoint are those of its status.
func pins(e *v2beta2.ZosEndpoint) bool {
	return e.Spec.EndpointType != v2beta2.EndpointLocal && len(e.Spec.HostKeys) == 0
}

func formatPinned(e *v2beta2.ZosEndpoint) string {
	if !pins(e) {
		return ""
	}
	lines := make([]string, 0, len(e.Status.HostKeys))
	for _, key := range e.Status.HostKeys {
		lines = append(lines, e.Status.PinnedFor+" "+key)
	}
	return strings.Join(lines, "\n")
}

// parsePinned returns the host keys that are recorded for an address. A line that is no host key is ignored.
func parsePinned(text, address string) []string {
	var keys []string
	for line := range strings.Lines(text) {
		key, found := strings.CutPrefix(strings.TrimSpace(line), address+" ")
		if parsed, err := probe.ParseHostKey(key); found && err == nil {
			keys = append(keys, probe.FormatHostKey(parsed))
		}
	}
	return keys[:min(len(keys), maxPinnedKeys)]
}

// maxPinnedKeys limits what is read of an annotation. The manager pins one key; a user may have written others into status.
const maxPinnedKeys = 16
