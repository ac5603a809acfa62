package intake

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// An archive that the leader cannot take now is sent again later, one that it refuses is not, and none keeps others away.
func TestHandOver(t *testing.T) {
	a, sent := copiesOf(t), map[string]int{}
	copyTo(t, a.Folder, time.Now())
	for _, version := range []string{"2.0.0", "3.0.0"} {
		putCopy(t, a.Folder, version, time.Now())
	}
	elected := make(chan struct{})
	h := NewHandOver(a.Folder, func(_ context.Context, upload store.Upload) error {
		sent[upload.Version]++
		return map[string]error{"1.0.0": errors.New("away"), "2.0.0": fmt.Errorf("%w: too large", replica.ErrUploadRefused)}[upload.Version]
	}, func(context.Context) types.UID { return "leader" }, elected)
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

// The next leader gets what the former one may not have imported.
func TestHandOverToTheNextLeader(t *testing.T) {
	a, sent, leader := copiesOf(t), 0, types.UID("first")
	copyTo(t, a.Folder, time.Now())
	h := NewHandOver(a.Folder, func(context.Context, store.Upload) error {
		sent++
		return nil
	}, func(context.Context) types.UID { return leader }, nil)
	for _, step := range []struct {
		leader types.UID
		sent   int
	}{{"first", 1}, {"first", 1}, {"", 1}, {"second", 2}, {"second", 2}} {
		leader = step.leader
		if next := h.send(t.Context()); sent != step.sent || next > leaderInterval || next <= 0 {
			t.Errorf("%+v: sent %d times, and looked again after %s", step, sent, next)
		}
	}
	last := h.last(a.Folder.Complete()[0])
	last.next = time.Now()
	h.attempts[a.Folder.Complete()[0].Path] = last
	if next := h.send(t.Context()); next != 0 {
		t.Errorf("it is looked at for ever: again after %s", next)
	}
}
