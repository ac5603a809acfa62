package endpoint

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func runWindow(schedule string, duration time.Duration, timeZone string) v2beta2.RunWindow {
	return v2beta2.RunWindow{Schedule: schedule, Duration: metav1.Duration{Duration: duration}, TimeZone: timeZone}
}

// windows parses pairs of a schedule and a duration, in a time zone.
func windows(t *testing.T, timeZone string, pairs ...string) []Window {
	t.Helper()
	var parsed []Window
	for i := 0; i < len(pairs); i += 2 {
		duration, err := time.ParseDuration(pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		w, err := ParseWindow(runWindow(pairs[i], duration, timeZone))
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, w)
	}
	return parsed
}

// at parses a time; "" is zero.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestParseWindowNamesEveryProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		window v2beta2.RunWindow
		want   []string
	}{
		"four fields":   {runWindow("0 22 * *", time.Hour, ""), []string{`schedule "0 22 * *": expected exactly 5 fields`}},
		"seconds":       {runWindow("0 0 22 * * *", time.Hour, ""), []string{"expected exactly 5 fields"}},
		"empty":         {runWindow("", time.Hour, ""), []string{`schedule ""`}},
		"no number":     {runWindow("0 22 * * someday", time.Hour, ""), []string{"someday"}},
		"out of range":  {runWindow("0 24 * * *", time.Hour, ""), []string{"24"}},
		"no value":      {runWindow(", 22 * * *", time.Hour, ""), []string{"has a field without a value"}},
		"no day":        {runWindow("0 22 * * ,", time.Hour, ""), []string{"has a field without a value"}},
		"descriptor":    {runWindow("@daily", time.Hour, ""), []string{"must have the five fields"}},
		"every":         {runWindow("@every 1h", time.Hour, ""), []string{"must have the five fields"}},
		"TZ":            {runWindow("TZ=UTC 0 22 * * *", time.Hour, ""), []string{"put it into timeZone"}},
		"CRON_TZ":       {runWindow("CRON_TZ=UTC 0 22 * * *", time.Hour, ""), []string{"put it into timeZone"}},
		"TZ alone":      {runWindow("TZ=", time.Hour, ""), []string{"put it into timeZone"}},
		"short":         {runWindow("0 22 * * *", 59*time.Second, ""), []string{"duration 59s must be from 1m to 168h"}},
		"long":          {runWindow("0 22 * * *", 169*time.Hour, ""), []string{"duration 169h0m0s must be from 1m to 168h"}},
		"negative":      {runWindow("0 22 * * *", -time.Hour, ""), []string{"duration -1h0m0s"}},
		"no time zone":  {runWindow("0 22 * * *", time.Hour, "Europe/Atlantis"), []string{`timeZone "Europe/Atlantis" is not in the time zone database`}},
		"local":         {runWindow("0 22 * * *", time.Hour, "Local"), []string{`timeZone "Local"`}},
		"a path":        {runWindow("0 22 * * *", time.Hour, "../etc/passwd"), []string{"timeZone"}},
		"three at once": {runWindow("x", 0, "x"), []string{"schedule", "timeZone", "duration"}},
	} {
		_, err := ParseWindow(tc.window)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not contain %q", name, err, want)
			}
		}
	}
}

func TestOpen(t *testing.T) {
	night := []string{"0 22 * * 1-5", "4h"} // Monday to Friday, until 2:00
	for name, tc := range map[string]struct {
		zone        string
		windows     []string
		now         string
		open        bool
		until, next string
	}{
		"no windows":               {"", nil, "2026-11-23T12:00:00Z", true, "", ""},
		"before":                   {"", night, "2026-11-23T21:59:59Z", false, "", "2026-11-23T22:00:00Z"},
		"at its beginning":         {"", night, "2026-11-23T22:00:00Z", true, "2026-11-24T02:00:00Z", ""},
		"within":                   {"", night, "2026-11-24T01:59:59.999Z", true, "2026-11-24T02:00:00Z", ""},
		"at its end":               {"", night, "2026-11-24T02:00:00Z", false, "", "2026-11-24T22:00:00Z"},
		"weekend":                  {"", night, "2026-11-28T12:00:00Z", false, "", "2026-11-30T22:00:00Z"},
		"other zone of now":        {"", night, "2026-11-23T17:30:00-05:00", true, "2026-11-24T02:00:00Z", ""},
		"names and steps":          {"", []string{"*/30 8-16 * JAN-DEC MON", "10m"}, "2026-11-23T08:35:00Z", true, "2026-11-23T08:40:00Z", ""},
		"shortest":                 {"", []string{"5 * * * *", "1m"}, "2026-11-23T08:05:30Z", true, "2026-11-23T08:06:00Z", ""},
		"overlapping":              {"", []string{"0 8 * * *", "2h", "0 9 * * *", "3h"}, "2026-11-23T08:30:00Z", true, "2026-11-23T12:00:00Z", ""},
		"within another":           {"", []string{"0 8 * * *", "8h", "0 9 * * *", "1h"}, "2026-11-23T09:30:00Z", true, "2026-11-23T16:00:00Z", ""},
		"one after the other":      {"", []string{"0 8 * * *", "2h", "0 10 * * *", "2h"}, "2026-11-23T08:00:00Z", true, "2026-11-23T12:00:00Z", ""},
		"a minute between":         {"", []string{"0 8 * * *", "2h", "1 10 * * *", "2h"}, "2026-11-23T08:00:00Z", true, "2026-11-23T10:00:00Z", ""},
		"overlaps itself":          {"", []string{"0 22-23 * * *", "90m"}, "2026-11-23T22:10:00Z", true, "2026-11-24T00:30:00Z", ""},
		"the first of two":         {"", []string{"0 20 * * *", "1h", "0 18 * * *", "1h"}, "2026-11-23T12:00:00Z", false, "", "2026-11-23T18:00:00Z"},
		"a week":                   {"", []string{"0 0 1 * *", "168h"}, "2026-11-07T23:00:00Z", true, "2026-11-08T00:00:00Z", ""},
		"day of month or week":     {"", []string{"0 0 13 * 5", "1h"}, "2026-11-09T00:00:00Z", false, "", "2026-11-13T00:00:00Z"},
		"never":                    {"", []string{"0 0 30 2 *", "1h"}, "2026-11-23T12:00:00Z", false, "", ""},
		"never, and another":       {"", []string{"0 0 30 2 *", "1h", "0 13 * * *", "1h"}, "2026-11-23T12:00:00Z", false, "", "2026-11-23T13:00:00Z"},
		"leap day":                 {"", []string{"0 0 29 2 *", "1h"}, "2026-11-23T12:00:00Z", false, "", "2028-02-29T00:00:00Z"},
		"summer":                   {"Europe/Berlin", []string{"0 22 * * *", "1h"}, "2026-07-01T20:30:00Z", true, "2026-07-01T21:00:00Z", ""},
		"winter":                   {"Europe/Berlin", []string{"0 22 * * *", "1h"}, "2026-12-01T20:30:00Z", false, "", "2026-12-01T21:00:00Z"},
		"across the spring":        {"Europe/Berlin", []string{"0 22 * * *", "8h"}, "2026-03-29T04:30:00Z", true, "2026-03-29T05:00:00Z", ""},
		"before the skipped hour":  {"Europe/Berlin", []string{"30 2 * * *", "1h"}, "2026-03-29T00:59:59Z", false, "", "2026-03-29T01:00:00Z"},
		"in the skipped hour":      {"Europe/Berlin", []string{"30 2 * * *", "1h"}, "2026-03-29T01:30:00Z", true, "2026-03-29T02:00:00Z", ""},
		"after the skipped hour":   {"Europe/Berlin", []string{"30 2 * * *", "1h"}, "2026-03-29T02:00:00Z", false, "", "2026-03-30T00:30:00Z"},
		"the next after a skipped": {"Europe/Berlin", []string{"0 3 * * *", "20m", "30 2 * * *", "5m"}, "2026-03-29T01:10:00Z", true, "2026-03-29T01:20:00Z", ""},
		"repeated hour, first":     {"Europe/Berlin", []string{"30 2 * * *", "1h"}, "2026-10-25T00:30:00Z", true, "2026-10-25T01:30:00Z", ""},
		"repeated hour, again":     {"Europe/Berlin", []string{"30 2 * * *", "1h"}, "2026-10-25T01:30:00Z", false, "", "2026-10-26T01:30:00Z"},
		"repeated hour, before":    {"Europe/Berlin", []string{"30 2 * * *", "1h"}, "2026-10-25T00:00:00Z", false, "", "2026-10-25T00:30:00Z"},
		"after the repeated hour":  {"Europe/Berlin", []string{"0 3 * * *", "1h"}, "2026-10-25T01:30:00Z", false, "", "2026-10-25T02:00:00Z"},
		"west, skipped hour":       {"America/New_York", []string{"30 2 * * *", "1h"}, "2026-03-08T06:59:00Z", false, "", "2026-03-08T07:00:00Z"},
		"west, repeated hour":      {"America/New_York", []string{"30 1 * * *", "1h"}, "2026-11-01T05:00:00Z", false, "", "2026-11-01T05:30:00Z"},
		"west, repeated again":     {"America/New_York", []string{"30 1 * * *", "30m"}, "2026-11-01T06:30:00Z", false, "", "2026-11-02T06:30:00Z"},
		"no midnight, that day":    {"Africa/Cairo", []string{"0 22 * * 5", "1h"}, "2026-04-23T12:00:00Z", false, "", "2026-04-24T19:00:00Z"},
		"no midnight, at midnight": {"Africa/Cairo", []string{"0 0 * * 5", "1h"}, "2026-04-23T12:00:00Z", false, "", "2026-04-23T22:00:00Z"},
		"no midnight, day before":  {"Africa/Cairo", []string{"30 1 * * 4", "1h"}, "2026-04-23T12:00:00Z", false, "", "2026-04-29T22:30:00Z"},
		"half an hour":             {"Asia/Kolkata", []string{"0 22 * * *", "1h"}, "2026-11-23T12:00:00Z", false, "", "2026-11-23T16:30:00Z"},
	} {
		open, until, next := Open(windows(t, tc.zone, tc.windows...), at(t, tc.now))
		if open != tc.open || !until.Equal(at(t, tc.until)) || !next.Equal(at(t, tc.next)) {
			t.Errorf("%s: open %v until %s, next %s; want %v until %q, next %q", name, open, until, next, tc.open, tc.until, tc.next)
		}
	}
}

func TestOpenBoundsWindowsThatNeverEnd(t *testing.T) {
	now := at(t, "2026-11-23T12:00:00Z")
	for name, pairs := range map[string][]string{
		"each minute": {"* * * * *", "1m"},
		"one a day":   {"0 0 * * *", "24h"},
		"many a day":  {"* * * * *", "168h"},
	} {
		open, until, next := Open(windows(t, "", pairs...), now)
		if !open || until.Before(now.Add(16*time.Hour)) || !next.IsZero() {
			t.Errorf("%s: open %v until %s, next %s", name, open, until, next)
		}
	}
}

// A minute of a day in which clocks change is open exactly if the window opened at most its duration ago.
func TestOpenAgreesWithTheClockOnTheWall(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	w := windows(t, "Europe/Berlin", "15 * * * *", "10m")
	for _, day := range []string{"2026-03-28T22:00:00Z", "2026-10-25T10:00:00Z", "2026-12-31T20:00:00Z"} {
		for minute := range 12 * 60 {
			now := at(t, day).Add(time.Duration(minute) * time.Minute)
			clock := now.In(berlin).Minute()
			// 2:15 does not exist on the first day: that window opens at 3:00.
			skipped := now.Equal(at(t, "2026-03-29T01:00:00Z")) || (now.After(at(t, "2026-03-29T01:00:00Z")) && now.Before(at(t, "2026-03-29T01:10:00Z")))
			want := (clock >= 15 && clock < 25) || skipped
			if open, _, _ := Open(w, now); open != want {
				t.Errorf("%s: open is %v", now.In(berlin), open)
			}
		}
	}
}
