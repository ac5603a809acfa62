package endpoint

import (
	"testing"
	"time"
)

// Whether a user ID can log on is decided by what came last. Refused credentials stay refused all the same.
func TestIsAccepted(t *testing.T) {
	e := Settings{Name: "lpar1", Address: "lpar1:22"}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &State{}
	for i, step := range []struct {
		credential string
		connection Connection
		accepted   bool
		changed    bool
		news       bool
		refused    int
	}{
		{"a", ConnectionAccepted, true, true, true, 0},
		{"a", ConnectionAccepted, true, false, false, 0},
		{"b", ConnectionRefused, false, true, true, 1},
		{"a", ConnectionAccepted, true, true, true, 1},
		{"a", ConnectionAccepted, true, false, false, 1},
		{"a", ConnectionRefused, false, true, true, 2},
		{"c", ConnectionAccepted, true, true, true, 2},
		{"b", ConnectionRefused, true, false, false, 2},
		// Another valid credential is written once.
		{"d", ConnectionAccepted, true, true, false, 2},
		{"c", ConnectionAccepted, true, false, false, 2},
		{"d", ConnectionAccepted, true, false, false, 2},
	} {
		before, err := ParseState(s.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		request := Request{Now: at.Add(time.Duration(i) * time.Second), Operator: "n/o", Pod: "1", Resource: "r", Run: "1", User: "U", Credential: step.credential}
		if changed := s.Observe(e, request, step.connection, "m"); changed != step.changed {
			t.Errorf("step %d: changed %v", i, changed)
		}
		if news := HasNews(before, s); news != step.news {
			t.Errorf("step %d: news %v", i, news)
		}
		logon := s.Logons["u"]
		if logon.IsAccepted() != step.accepted || len(logon.Refused) != step.refused {
			t.Errorf("step %d: accepted %v, %d refused: %+v", i, logon.IsAccepted(), len(logon.Refused), logon)
		}
	}
}

func TestTheLatestAcceptedCredentialsAreKept(t *testing.T) {
	s := &State{}
	for i := range 10 {
		s.Observe(settings(), request("DataFile/a/hello", credential(string(rune('a'+i))), later(time.Duration(i)*time.Minute)), ConnectionAccepted, "")
	}
	logon := s.Logons["ibmuser"]
	if len(logon.Accepted) != maxAccepted || logon.hasAccepted("b") || !logon.hasAccepted("c") || !logon.hasAccepted("j") {
		t.Errorf("%d accepted: %v", len(logon.Accepted), logon.Accepted)
	}
}
