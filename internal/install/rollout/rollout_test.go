package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const interval = 15 * time.Second

// parse reads namespaces such as "a:2 b:1! c:1": the name, the digest, and
//
//	~ not ready   ! not ready, needs attention   x custom resources fail   r they run   u a user manages it   @30s ready for so long
func parse(text string) []Namespace {
	var namespaces []Namespace
	for _, field := range strings.Fields(text) {
		name, rest, _ := strings.Cut(field, ":")
		rest, readyFor, timed := strings.Cut(rest, "@")
		namespace := Namespace{
			Name: name, Digest: rest[:1], Ready: !strings.ContainsAny(rest, "~!"), NeedsAttention: strings.Contains(rest, "!"),
			UserManaged: strings.Contains(rest, "u"),
		}
		if timed {
			duration, err := time.ParseDuration(readyFor)
			if err != nil {
				panic(err)
			}
			namespace.ReadySince = now.Add(-duration)
		}
		if !namespace.Ready {
			namespace.Message = "pods of " + name
		}
		if strings.Contains(rest, "x") {
			namespace.Failing = "resources of " + name
		}
		if strings.Contains(rest, "r") {
			namespace.Running = "Thing " + name + "/x"
		}
		namespaces = append(namespaces, namespace)
	}
	return namespaces
}

func words(list string) []string { return strings.Fields(list) }

func TestNext(t *testing.T) {
	for _, test := range []struct {
		name, namespaces   string
		began, interrupted string
		unavailable        int
		paused             bool
		healthyFor         time.Duration

		want     string // those that began
		upgraded int
		over     bool
		stopped  bool
		message  string
		again    time.Duration
	}{
		{name: "nothing is installed", over: true},
		{name: "all run it", namespaces: "a:2 b:2", upgraded: 2, over: true},
		{name: "custom resources of the last ones do not matter", namespaces: "a:2 b:2x", upgraded: 2, over: true},
		{name: "the first begins", namespaces: "c:1 a:1 b:1", want: "a", message: "waiting for namespace a"},
		{name: "a namespace whose operator was not ready has its turn too", namespaces: "a:1! b:1", want: "a", message: "waiting for namespace a"},
		{name: "one that began has not begun yet", namespaces: "a:1 b:1", began: "a", want: "a", message: "waiting for namespace a"},
		{name: "one that began stays so although it comes later", namespaces: "a:1 b:1", began: "b", want: "b", message: "waiting for namespace b"},
		{name: "its pod starts", namespaces: "a:2~ b:1", began: "a", want: "a", message: "waiting for namespace a: pods of a"},
		{name: "the next begins", namespaces: "a:2 b:1 c:1", began: "a", want: "a b", upgraded: 1, message: "waiting for namespace b"},
		{name: "the last one", namespaces: "a:2 b:2~", began: "a b", want: "a b", upgraded: 1, message: "waiting for namespace b: pods of b"},
		{name: "one does not become ready", namespaces: "a:2 b:2! c:1", began: "a b", want: "a b", upgraded: 1, stopped: true, message: "stopped at namespace b: pods of b"},
		{name: "the new version is refused in one", namespaces: "a:1! b:1", began: "a", want: "a", stopped: true, message: "stopped at namespace a: pods of a"},
		{name: "one that was ready fails again", namespaces: "a:2! b:2 c:1", began: "a b", want: "a b", upgraded: 1, stopped: true, message: "stopped at namespace a: pods of a"},
		{name: "one that was ready starts again", namespaces: "a:2~ b:2 c:1", began: "a b", want: "a b", upgraded: 1, message: "waiting for namespace a: pods of a"},
		{name: "it stops with more allowed at the same time too", namespaces: "a:2! b:1 c:1", unavailable: 3, began: "a", want: "a", stopped: true, message: "stopped at namespace a: pods of a"},
		{name: "custom resources fail", namespaces: "a:2x b:1", began: "a", want: "a", upgraded: 1, stopped: true, message: "stopped at namespace a: resources of a", again: interval},
		{name: "both", namespaces: "a:2!x b:1", began: "a", want: "a", stopped: true, message: "stopped at namespace a: pods of a; resources of a", again: interval},
		{name: "custom resources of a namespace with the old version do not matter", namespaces: "a:2 b:1x c:1", began: "a", want: "a b", upgraded: 1, message: "waiting for namespace b"},
		{name: "it goes on", namespaces: "a:2 b:2 c:1 d:1", began: "a b", want: "a b c", upgraded: 2, message: "waiting for namespace c"},
		{name: "a namespace is mapped in the middle", namespaces: "a:2 aa:2~ b:1", began: "a", want: "a aa", upgraded: 1, message: "waiting for namespace aa: pods of aa"},
		{name: "a namespace is not mapped any more", namespaces: "b:1 c:1", began: "a", want: "b", message: "waiting for namespace b"},
		{name: "two at the same time", namespaces: "a:1 b:1 c:1", unavailable: 2, want: "a b", message: "waiting for namespace a; namespace b"},
		{name: "one of two is ready", namespaces: "a:2~ b:2 c:1 d:1", unavailable: 2, began: "a b", want: "a b c", upgraded: 1, message: "waiting for namespace a: pods of a; namespace c"},
		{name: "more than there are", namespaces: "a:1 b:1", unavailable: 9, want: "a b", message: "waiting for namespace a; namespace b"},
		{name: "the limit is lowered", namespaces: "a:2~ b:2~ c:1", began: "a b", want: "a b", message: "waiting for namespace a: pods of a; namespace b: pods of b"},
		{name: "many are waited for", namespaces: "a:1 b:1 c:1 d:1 e:1", unavailable: 5, want: "a b c d e", message: "waiting for namespace a; namespace b; namespace c; and 2 more"},
		{name: "paused before it begins", namespaces: "a:1 b:1", paused: true, message: "paused before namespace a: set spec.upgrade.strategy.pause to false to go on"},
		{name: "paused in the middle", namespaces: "a:2 b:1", paused: true, began: "a", want: "a", upgraded: 1, message: "paused before namespace b: set spec.upgrade.strategy.pause to false to go on"},
		{name: "paused while one starts", namespaces: "a:2~ b:1", paused: true, began: "a", want: "a", message: "waiting for namespace a: pods of a"},
		{name: "paused with one that fails", namespaces: "a:2! b:1", paused: true, began: "a", want: "a", stopped: true, message: "stopped at namespace a: pods of a"},
		{name: "ready, but not for long enough", namespaces: "a:2@5s b:1", healthyFor: 10 * time.Second, began: "a", want: "a", upgraded: 1, message: "namespace b begins when namespace a has been ready for 10s", again: 5 * time.Second},
		{name: "custom resources are looked at meanwhile", namespaces: "a:2@5m b:1", healthyFor: time.Hour, began: "a", want: "a", upgraded: 1, message: "namespace b begins when namespace a has been ready for 1h0m0s", again: interval},
		{name: "ready for long enough", namespaces: "a:2@10s b:1", healthyFor: 10 * time.Second, began: "a", want: "a b", upgraded: 1, message: "waiting for namespace b"},
		{name: "ready for long enough, and playbooks run", namespaces: "a:2r@10s b:1", healthyFor: 10 * time.Second, began: "a", want: "a", upgraded: 1, message: "namespace b begins when these playbooks have ended: Thing a/x", again: interval},
		{name: "playbooks run, and it is not ready for long enough", namespaces: "a:2r@5s b:1", healthyFor: 10 * time.Second, began: "a", want: "a", upgraded: 1, message: "namespace b begins when namespace a has been ready for 10s", again: 5 * time.Second},
		{name: "playbooks run, and nobody asked for health", namespaces: "a:2r b:1", began: "a", want: "a b", upgraded: 1, message: "waiting for namespace b"},
		{name: "playbooks of the last one run", namespaces: "a:2@10s b:2r@10s", healthyFor: 10 * time.Second, began: "a b", upgraded: 2, over: true},
		{name: "one fails while another one runs", namespaces: "a:2rx@10s b:1", healthyFor: 10 * time.Second, began: "a", want: "a", upgraded: 1, stopped: true, message: "stopped at namespace a: resources of a", again: interval},
		{name: "it is not known since when", namespaces: "a:2 b:1", healthyFor: 10 * time.Second, began: "a", want: "a", upgraded: 1, message: "namespace b begins when namespace a has been ready for 10s", again: 10 * time.Second},
		{name: "the shortest wait counts", namespaces: "a:2@5s b:2@7s c:1", unavailable: 2, healthyFor: 10 * time.Second, began: "a b", want: "a b", upgraded: 2, message: "namespace c begins when namespace a has been ready for 10s", again: 3 * time.Second},
		{name: "nobody waits for the last one to be healthy", namespaces: "a:2@1h b:2@1s", healthyFor: 10 * time.Second, began: "a b", upgraded: 2, over: true},
		{name: "a third version: interrupted ones come first", namespaces: "a:1 b:1 c:3~ d:3", interrupted: "c d", want: "c", message: "waiting for namespace c"},
		{name: "a third version: one that needs attention too", namespaces: "a:1 c:3!", interrupted: "c", want: "c", message: "waiting for namespace c"},
		{name: "back to the first version", namespaces: "a:1 b:3~ c:2", interrupted: "a b", want: "b c", upgraded: 1, message: "waiting for namespace b"},
		{name: "users upgrade Subscriptions of theirs", namespaces: "a:1u b:1 c:1", want: "a b", message: "waiting for namespace b"},
		{name: "others do not wait for them", namespaces: "a:1u! b:2 c:1", began: "a b", want: "a b c", upgraded: 1, message: "waiting for namespace c"},
		{name: "but they are not told to go on before", namespaces: "a:2! b:1u c:1", began: "a", want: "a", stopped: true, message: "stopped at namespace a: pods of a"},
		{name: "only they are left", namespaces: "a:1u! b:2", began: "a b", want: "a b", upgraded: 1, message: "waiting for the users of Subscriptions in namespace a: pods of a"},
		{name: "theirs fails too", namespaces: "a:2u! b:1", began: "a", want: "a", stopped: true, message: "stopped at namespace a: pods of a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan := Plan{
				Digest: "2", Namespaces: parse(test.namespaces), Began: words(test.began), Interrupted: words(test.interrupted), Now: now, Interval: interval,
				Strategy: Strategy{MaxUnavailable: max(test.unavailable, 1), Paused: test.paused, HealthyFor: test.healthyFor},
			}
			got := Next(plan)
			want := Decision{
				Over: test.over, Began: words(test.want), Total: len(plan.Namespaces), Upgraded: test.upgraded, Stopped: test.stopped,
				Message: test.message, Again: test.again,
			}
			if len(want.Began) == 0 {
				want.Began = nil
			}
			if len(got.Began) == 0 {
				got.Began = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			slices.Reverse(plan.Namespaces)
			if diff := cmp.Diff(Next(plan).Message, got.Message); diff != "" {
				t.Errorf("the order of the input matters: %s", diff)
			}
		})
	}
}

func TestDependsOnResources(t *testing.T) {
	for namespaces, want := range map[string]bool{
		"a:2 b:1": true, "a:2@1s b:1": true, "a:2 b:2": false, "a:2~ b:1": false, "a:2! b:1": false,
	} {
		plan := Plan{Digest: "2", Namespaces: parse(namespaces), Began: words("a"), Now: now, Strategy: Strategy{MaxUnavailable: 1, HealthyFor: time.Minute}}
		if got := plan.DependsOnResources(); got != want {
			t.Errorf("%s: got %t", namespaces, got)
		}
		plan.Strategy.Paused = true
		if plan.DependsOnResources() {
			t.Errorf("%s, paused: got true", namespaces)
		}
	}
}

// Each of many namespaces is upgraded once, and never more of them at the same time than allowed, whatever becomes of them.
func TestEveryNamespaceHasItsTurn(t *testing.T) {
	for allowed := 1; allowed <= 7; allowed += 3 {
		plan := Plan{Digest: "2", Now: now, Strategy: Strategy{MaxUnavailable: allowed}}
		for i := range 20 {
			plan.Namespaces = append(plan.Namespaces, Namespace{Name: fmt.Sprintf("n%02d", i), Digest: "1", Ready: true})
		}
		steps := 0
		for decision := Next(plan); !decision.Over; decision = Next(plan) {
			if steps++; steps > 1000 {
				t.Fatalf("with %d at the same time it never ends: %+v", allowed, decision)
			}
			if busy := len(decision.Began) - decision.Upgraded; busy > allowed {
				t.Fatalf("%d at the same time, %d are allowed", busy, allowed)
			}
			plan.Began = decision.Began
			// The last that began advances by one step.
			for i := len(plan.Namespaces) - 1; i >= 0; i-- {
				n := &plan.Namespaces[i]
				if !slices.Contains(plan.Began, n.Name) || n.Digest == "2" && n.Ready {
					continue
				}
				n.Ready, n.Digest = n.Digest == "2", "2"
				break
			}
		}
	}
}
