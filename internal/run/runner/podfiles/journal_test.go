package podfiles

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// What a run got is released by the next process of the pod if its own ends before it.
func TestPlaceInTheJournal(t *testing.T) {
	j := Journal{Dir: t.TempDir()}
	want := Slot{Namespace: "zos", Secret: "s", User: "u", Credential: "c", Settings: endpoint.Settings{Name: "lpar1", Address: "host:22", MaxRuns: 4}}
	apiserver.Must(t, j.Write(Entry{UID: "a", Decision: gate.Decision{Canary: true}, Slot: &want, Run: runstatus.Run{ID: "42"}}))
	got, err := j.Read("a")
	apiserver.Must(t, err)
	if got.Slot == nil || got.Slot.Settings.Address != "host:22" || got.Slot.Credential != "c" || !got.Decision.Canary {
		t.Errorf("got %+v", got.Slot)
	}
}

// A gate that ends before its run leaves to the next one what the state has been told.
func TestWhatWasToldIsInTheJournal(t *testing.T) {
	j := Journal{Dir: t.TempDir()}
	p := &Slot{Resource: "a", Admitted: now, Reported: endpoint.ConnectionAccepted}
	apiserver.Must(t, j.UpdateSlot(p))
	if got, err := j.Read("a"); got != nil || err != nil {
		t.Errorf("a check has no entry: %+v, %v", got, err)
	}
	apiserver.Must(t, j.Write(Entry{UID: "a", Slot: &Slot{Resource: "a"}, Run: runstatus.Run{ID: "42"}}))
	apiserver.Must(t, j.UpdateSlot(p))
	got, err := j.Read("a")
	apiserver.Must(t, err)
	if got.Slot.Reported != endpoint.ConnectionAccepted || !got.Slot.Admitted.Equal(now) || got.Run.ID != "42" {
		t.Errorf("%+v, place %+v", got, got.Slot)
	}
}

func TestJournal(t *testing.T) {
	j := Journal{Dir: t.TempDir()}
	if e, err := j.Read("a"); e != nil || err != nil {
		t.Fatalf("read %v, %v of an empty journal", e, err)
	}
	apiserver.Must(t, j.Remove("a"))
	want := Entry{
		UID: "a", Generation: 3, Run: runstatus.Run{ID: "42"}, Decision: gate.Decision{Attempt: 2},
		Input: gate.Input{Settings: &gate.Settings{MaxRetries: 5}, UID: "a", Period: time.Hour},
	}
	apiserver.Must(t, j.Write(want))
	apiserver.Must(t, j.Write(Entry{UID: "b"}))
	got, err := j.Read("a")
	apiserver.Must(t, err)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	apiserver.Must(t, j.Remove("a"))
	if e, err := j.Read("a"); e != nil || err != nil {
		t.Errorf("read %v, %v after it was removed", e, err)
	}
}
