package endpoint

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func fullState() *State {
	holder := Holder{Operator: "a/op", PodName: "op-1", Pod: "p1", Resource: "DataFile/a/hello", Run: "r1", Since: now}
	return &State{
		Systems: map[string]*System{"zos1:22": {
			Limit: 4, Running: []Holder{holder}, Queue: []Waiter{{Operator: "b/op", Since: now, Offered: now}},
			Outage: &Outage{Since: now, Message: "timeout", NextTry: now}, RecoveredAt: now, ReachedAt: now,
		}},
		Logons: map[string]*Logon{"ibmuser": {
			Accepted: accepted("c1"), Refused: map[string]Refusal{"c2": {At: now, Endpoint: "zos1", Message: "permission denied"}}, Trying: &holder,
		}},
		Retries:   map[string]string{"zos1": ""},
		Abandoned: []Abandoned{{Operator: "a/op", Kind: "DataFile", Name: "hello", Endpoint: "zos1", At: now}},
	}
}

func TestParseStateReturnsWhatWasWritten(t *testing.T) {
	for name, s := range map[string]*State{"empty": {}, "full": fullState()} {
		content := s.Marshal()
		got, err := ParseState(content)
		if err != nil || !cmp.Equal(s, got) {
			t.Errorf("%s: %s, error %v: %s", name, content, err, cmp.Diff(s, got))
			continue
		}
		if again := got.Marshal(); !bytes.Equal(content, again) {
			t.Errorf("%s: written again it is %s, not %s", name, again, content)
		}
	}
}

func TestParseStateRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ content, want string }{
		"nothing":        {"", "state.json"},
		"a list":         {"[]", "state.json"},
		"two objects":    {"{}{}", "state.json"},
		"no system":      {`{"systems":{"zos1:22":null}}`, `system "zos1:22" is null`},
		"no logon":       {`{"logons":{"ibmuser":null}}`, `logon "ibmuser" is null`},
		"not a time":     {`{"systems":{"zos1:22":{"recoveredAt":"today"}}}`, "state.json"},
		"more than fits": {`{"retries":{"a":"` + strings.Repeat("x", maxState) + `"}}`, "more than 921600"},
	} {
		if _, err := ParseState([]byte(tc.content)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestKeyIdentifiesCredentials(t *testing.T) {
	managers, err := ParseKey(bytes.Repeat([]byte("k"), KeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	key := managers.In("a")
	password := key.Credential("IBMUSER", nil, nil, []byte("secret"))
	if again := key.Credential("ibmuser", nil, []byte{}, []byte("secret")); again != password {
		t.Errorf("the same credential is %s and %s", password, again)
	}
	seen := map[string]string{password: "password"}
	for name, credential := range map[string]string{
		"other key":       Key(bytes.Repeat([]byte("l"), KeyBytes)).Credential("IBMUSER", nil, nil, []byte("secret")),
		"other namespace": managers.In("b").Credential("IBMUSER", nil, nil, []byte("secret")),
		"other user":      key.Credential("IBMUSER2", nil, nil, []byte("secret")),
		"other password":  key.Credential("IBMUSER", nil, nil, []byte("secret2")),
		"as passphrase":   key.Credential("IBMUSER", nil, []byte("secret"), nil),
		"as key":          key.Credential("IBMUSER", []byte("secret"), nil, nil),
		"split":           key.Credential("IBMUSER", nil, []byte("sec"), []byte("ret")),
		"moved":           key.Credential("IBMUSERs", nil, nil, []byte("ecret")),
		"none":            key.Credential("IBMUSER", nil, nil, nil),
	} {
		if other, exists := seen[credential]; exists || len(credential) != 32 || strings.Contains(credential, "secret") {
			t.Errorf("%s: %q is also %s", name, credential, other)
		}
		seen[credential] = name
	}
	for _, length := range []int{0, KeyBytes - 1, KeyBytes + 1} {
		if _, err := ParseKey(make([]byte, length)); err == nil {
			t.Errorf("a key of %d bytes is accepted", length)
		}
	}
}

func TestSetLimits(t *testing.T) {
	s := fullState()
	s.Systems["gone:22"] = &System{Limit: 2}
	s.Systems["free:22"] = &System{Limit: 2, RecoveredAt: now, Queue: []Waiter{{Operator: "b/op"}}}
	limits := map[string]int{"zos1:22": 3, "zos2:22": 1, "zos3:22": 0, "zos4:22": -1, "free:22": 0}
	if !s.SetLimits(limits) {
		t.Error("nothing has changed")
	}
	want := fullState()
	want.Systems["zos1:22"].Limit = 3
	want.Systems["zos2:22"] = &System{Limit: 1}
	want.Systems["free:22"] = &System{RecoveredAt: now}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if s.SetLimits(limits) {
		t.Error("the same limits change the state")
	}
	if (&State{}).SetLimits(map[string]int{"zos1:22": 0}) {
		t.Error("no limit changes an empty state")
	}
}

func TestAbandonKeepsTheLatest(t *testing.T) {
	s := &State{}
	for i := range 25 {
		s.Abandon(Abandoned{Name: fmt.Sprint(i), At: now})
	}
	if len(s.Abandoned) != 20 || s.Abandoned[0].Name != "5" || s.Abandoned[19].Name != "24" {
		t.Errorf("%+v", s.Abandoned)
	}
}

func TestAllowRetry(t *testing.T) {
	s := fullState()
	s.Retries = nil
	s.Logons["ibmuser"].Trying = nil
	s.Logons["other"] = &Logon{Refused: map[string]Refusal{"c3": {At: now}}}
	for i, step := range []struct {
		endpoint, value string
		changed         bool
		refused         int
	}{
		{"zos1", "", true, 2}, {"zos1", "", false, 2}, {"zos2", "1", true, 2}, {"zos2", "1", false, 2}, {"zos2", "", true, 2},
		{"zos1", "1", true, 0}, {"zos1", "1", false, 0},
	} {
		changed := s.AllowRetry(step.endpoint, step.value)
		refused := 0
		for _, logon := range s.Logons {
			refused += len(logon.Refused)
		}
		if changed != step.changed || refused != step.refused {
			t.Errorf("step %d: changed %v, %d refused", i, changed, refused)
		}
	}
	if len(s.Logons) != 1 || !s.Logons["ibmuser"].hasAccepted("c1") {
		t.Errorf("logons %+v", s.Logons)
	}
	for i := range 2 * maxRetries {
		s.AllowRetry(fmt.Sprint("endpoint-", i), strings.Repeat("x", 1000))
	}
	if len(s.Retries) != maxRetries || len(s.Retries["endpoint-1"]) > maxUser {
		t.Errorf("%d endpoints, the value has %d bytes", len(s.Retries), len(s.Retries["endpoint-1"]))
	}
}

func TestEvict(t *testing.T) {
	s := fullState()
	var asked []string
	later := now.Add(2 * time.Minute)
	if s.Evict(later, func(operator, podName string, pod types.UID) bool {
		asked = append(asked, fmt.Sprintf("%s %s %s", operator, podName, pod))
		return false
	}) {
		t.Error("nobody is gone, and the state has changed")
	}
	if diff := cmp.Diff([]string{"a/op op-1 p1", "b/op  ", "a/op op-1 p1"}, asked); diff != "" {
		t.Error(diff)
	}
	isQueued := func(operator, _ string, _ types.UID) bool { return operator == "b/op" }
	if s.Evict(now.Add(time.Second), isQueued) {
		t.Error("an operator that has just begun to wait was removed")
	}
	if !s.Evict(later, isQueued) || len(s.Systems["zos1:22"].Queue) != 0 {
		t.Error("the queue still has an operator that is gone")
	}
	if !s.Evict(later, func(_, _ string, pod types.UID) bool { return pod == "p1" }) || len(s.Systems["zos1:22"].Running) != 0 || s.Logons["ibmuser"].Trying != nil {
		t.Error("the state still has a pod that is gone")
	}
}

func TestHasNews(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*State)
		want   bool
	}{
		"nothing":           {func(*State) {}, false},
		"same time":         {func(s *State) { s.Systems["zos1:22"].Outage.Since = now.Local() }, false},
		"next attempt":      {func(s *State) { s.Systems["zos1:22"].Outage.NextTry = now.Add(time.Minute) }, false},
		"runs":              {func(s *State) { s.Systems["zos1:22"].Running = nil }, false},
		"limit":             {func(s *State) { s.Systems["zos1:22"].Limit = 0 }, false},
		"trying":            {func(s *State) { s.Logons["ibmuser"].Trying = nil }, true},
		"another tries":     {func(s *State) { s.Logons["other"] = &Logon{Trying: &Holder{}} }, true},
		"another run tries": {func(s *State) { s.Logons["ibmuser"].Trying = &Holder{Run: "other"} }, false},
		"another waits":     {func(s *State) { s.Systems["zos1:22"].Queue = append(s.Systems["zos1:22"].Queue, Waiter{}) }, false},
		"retries":           {func(s *State) { s.Retries = nil }, false},
		"nobody waits":      {func(s *State) { s.Systems["zos1:22"].Queue = nil }, true},
		"outage is over":    {func(s *State) { s.Systems["zos1:22"].Outage = nil }, true},
		"message":           {func(s *State) { s.Systems["zos1:22"].Outage.Message = "refused" }, true},
		"second outage":     {func(s *State) { s.Systems["zos2:22"] = &System{Outage: &Outage{}} }, true},
		"accepted another":  {func(s *State) { s.Logons["ibmuser"].Accepted["c3"] = now }, false},
		"no longer":         {func(s *State) { s.Logons["ibmuser"].Accepted = nil }, true},
		"other user":        {func(s *State) { s.Logons["other"] = &Logon{Accepted: accepted("c4")} }, true},
		"refused":           {func(s *State) { s.Logons["ibmuser"].Refused["c4"] = Refusal{} }, true},
		"refused again":     {func(s *State) { s.Logons["ibmuser"].Refused["c2"] = Refusal{At: now.Add(time.Hour)} }, true},
		"abandoned":         {func(s *State) { s.Abandon(Abandoned{}) }, true},
		"abandoned another": {func(s *State) { s.Abandoned[0].Name = "b" }, true},
	} {
		after := fullState()
		tc.change(after)
		if got := HasNews(fullState(), after); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := HasNews(after, fullState()); got != tc.want {
			t.Errorf("%s, undone: %v", name, got)
		}
	}
	if HasNews(nil, &State{}) || !HasNews(nil, fullState()) || !HasNews(fullState(), nil) {
		t.Error("a missing state is not like an empty one")
	}
}
