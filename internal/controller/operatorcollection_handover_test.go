package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/replica"
)

// An archive that the leader cannot take now is sent again later, one that it refuses is not, and none keeps others away.
func TestHandOver(t *testing.T) {
	a, sent := copiesOf(t), map[string]int{}
	copyTo(t, a.Folder, time.Now())
	for _, version := range []string{"2.0.0", "3.0.0"} {
		putCopy(t, a.Folder, version, time.Now())
	}
	elected := make(chan struct{})
	h := NewHandOver(a.Folder, func(_ context.Context, upload artifact.Upload) error {
		sent[upload.Version]++
		return map[string]error{"1.0.0": errors.New("away"), "2.0.0": fmt.Errorf("%w: too large", replica.ErrUploadRefused)}[upload.Version]
	}, elected)
	if next := h.send(t.Context()); next < minUploadDelay/2 || next > minUploadDelay {
		t.Errorf("the next attempt is after %s", next)
	}
	h.send(t.Context())
	if sent["1.0.0"] != 1 || sent["2.0.0"] != 1 || sent["3.0.0"] != 1 {
		t.Errorf("nothing is due: got %v", sent)
	}
	for _, upload := range a.Folder.Complete() {
		if h.isDone(upload) != (upload.Version != "1.0.0") {
			t.Errorf("got %v for %+v", h.isDone(upload), upload)
		}
		last := h.last(upload)
		last.next = time.Now()
		h.attempts[upload.Path] = last
	}
	if next := h.send(t.Context()); sent["1.0.0"] != 2 || sent["2.0.0"] != 1 || sent["3.0.0"] != 1 || next <= minUploadDelay {
		t.Errorf("got %v, and the next attempt after %s", sent, next)
	}
	putCopy(t, a.Folder, "2.0.0", time.Now().Add(time.Second))
	h.send(t.Context())
	close(elected)
	putCopy(t, a.Folder, "3.0.0", time.Now().Add(time.Second))
	h.send(t.Context())
	if sent["2.0.0"] != 2 || sent["3.0.0"] != 1 {
		t.Errorf("a file that was written again is another one, and a leader keeps what it has: got %v", sent)
	}
}
