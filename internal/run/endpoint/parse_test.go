package endpoint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Code in the pod of an operator can write anything into a state. What the manager reads pods by, and shows, is bounded.
func TestParseStateTrims(t *testing.T) {
	long := strings.Repeat("x", 1000)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	holder := Holder{Operator: long, PodName: long, Pod: "1", Resource: long, Run: "a\nb"}
	written := &State{
		Systems: map[string]*System{"a:22": {Outage: &Outage{Since: at, Message: long}}, "b:22": {}},
		Logons:  map[string]*Logon{strings.Repeat("u", 5000): {Trying: &holder, Refused: map[string]Refusal{"c": {At: at, Endpoint: long, Message: long}}}},
	}
	for i := range 2 * maxHolders {
		system := written.Systems[[]string{"a:22", "b:22"}[i%2]]
		system.Running = append(system.Running, Holder{Operator: "n/o", PodName: fmt.Sprint(i)})
	}
	written.Systems["a:22"].Running[0] = holder
	for i := range 3 * maxAbandoned {
		written.Abandoned = append(written.Abandoned, Abandoned{Operator: long, Kind: long, Name: fmt.Sprint(i), Endpoint: long, At: at})
	}
	for i := range 2 * maxUsers {
		written.Logons[fmt.Sprint(i)] = &Logon{Accepted: map[string]time.Time{"c": at}}
	}
	read, err := ParseState(written.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(read.Systems["a:22"].Running) + len(read.Systems["b:22"].Running); n != maxHolders || len(read.Logons) != maxUsers {
		t.Errorf("%d holders, %d logons", n, len(read.Logons))
	}
	if n := len(read.Abandoned); n != maxAbandoned || read.Abandoned[n-1].Name != fmt.Sprint(3*maxAbandoned-1) {
		t.Errorf("%d abandoned resources: the latest are kept", n)
	}
	first := read.Systems["a:22"].Running[0]
	if len(first.Operator) != maxName || len(first.PodName) != maxName || first.Run != "a b" {
		t.Errorf("got %+v", first)
	}
	logon := read.Logons[printable.Line(strings.Repeat("u", 5000), 2*maxUser)]
	if logon == nil || len(logon.Refused["c"].Message) > maxStored || len(logon.Trying.PodName) != maxName {
		t.Errorf("got %+v", logon)
	}
	if again, err := ParseState(read.Marshal()); err != nil || string(again.Marshal()) != string(read.Marshal()) {
		t.Error("a trimmed state must not change again")
	}
}

func TestIsFlapping(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		system System
		want   bool
	}{
		"no outage":           {System{RecoveredAt: at.Add(-time.Second)}, false},
		"the first outage":    {System{Outage: &Outage{Since: at}}, false},
		"another at once":     {System{Outage: &Outage{Since: at}, RecoveredAt: at.Add(-time.Second)}, true},
		"another later":       {System{Outage: &Outage{Since: at}, RecoveredAt: at.Add(-flapTime)}, false},
		"one that lasts long": {System{Outage: &Outage{Since: at.Add(-calmTime)}, RecoveredAt: at.Add(-calmTime - time.Second)}, false},
	} {
		s := &State{Systems: map[string]*System{"a:22": &test.system}}
		if got := s.IsFlapping("a:22", at); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
