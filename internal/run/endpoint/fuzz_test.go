package endpoint

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"
)

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{}`), "c1")
	f.Add(fullState().Marshal(), "c2")
	f.Add([]byte(`{"systems":{"zos1:22":{"limit":-1,"running":[{}],"queue":[{}],"outage":{}}},"logons":{"ibmuser":{"trying":{}}}}`), "")
	f.Add([]byte(`{"systems":{"":{"recoveredAt":"9999-12-31T23:59:59.999999999-23:59"}},"retries":{"zos1":"1"},"abandoned":[{}]}`), "c1")
	f.Fuzz(func(t *testing.T, content []byte, credential string) {
		s, err := ParseState(content)
		if err != nil {
			return
		}
		written := s.Marshal()
		if len(written) > maxState {
			// Escapes may be longer than what they stand for.
			return
		}
		again, err := ParseState(written)
		if err != nil {
			t.Fatalf("%s: %v", written, err)
		}
		if HasNews(s, again) || !bytes.Equal(again.Marshal(), written) {
			t.Fatalf("%s is read and written as %s", written, again.Marshal())
		}
		e, r := settings(limit4, unreachableSince(now)), request("DataFile/a/hello", func(r *Request) { r.Credential = credential })
		if admission := s.Admit(e, r); admission.Wait != nil && (admission.Wait.After < time.Second || !utf8.ValidString(admission.Wait.Message)) {
			t.Errorf("%+v", admission.Wait)
		}
		for _, connection := range []Connection{ConnectionUnreachable, ConnectionRefused, ConnectionAccepted} {
			s.Observe(e, r, connection, "message")
		}
		if wait := s.Admit(e, r).Wait; wait != nil && wait.Reason != ReasonBusy {
			t.Errorf("after a logon: %+v", wait)
		}
		s.Release(e, r)
		s.AllowRetry("zos1", "2")
		s.Recover(zos1, now)
		s.SetLimits(nil)
		if len(s.Marshal()) == 0 {
			t.Error("the state cannot be written")
		}
	})
}

func FuzzParseWindow(f *testing.F) {
	f.Add("0 22 * * 1-5", int64(240), "Europe/Berlin", int64(1795428000))
	f.Add("*/5 0-6,22 1,15 jan-mar ?", int64(1), "", int64(1774746000))
	f.Add("0 0 30 2 *", int64(60), "America/New_York", int64(0))
	f.Add("TZ=UTC 0 0 * * *", int64(60), "Local", int64(1<<40))
	f.Add("59 23 31 12 0/2", int64(10080), "Africa/Cairo", int64(-1<<40))
	f.Fuzz(func(t *testing.T, schedule string, minutes int64, timeZone string, unix int64) {
		// Years that time can write.
		at := time.Unix(unix%(1<<37), 0)
		if len(schedule) > 256 || at.Year() < 1900 {
			return
		}
		w, err := ParseWindow(runWindow(schedule, time.Duration(minutes)*time.Minute, timeZone))
		if err != nil {
			return
		}
		windows := []Window{w}
		open, until, next := Open(windows, at)
		switch {
		case open && (!until.After(at) || !next.IsZero()):
			t.Errorf("open until %s, and next %s, at %s", until, next, at)
		case !open && !next.IsZero() && !next.After(at):
			t.Errorf("the next is %s, at %s", next, at)
		}
		if open || next.IsZero() {
			return
		}
		if opened, _, _ := Open(windows, next); !opened {
			t.Errorf("not open at %s, when it opens", next)
		}
		if opened, _, _ := Open(windows, next.Add(-time.Second)); opened {
			t.Errorf("open at a second before %s, when it opens", next)
		}
	})
}
