package endpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // Images need not have a database of time zones.

	"github.com/robfig/cron/v3"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// The shortest and the longest duration of a window.
const (
	minWindow = time.Minute
	maxWindow = 168 * time.Hour
)

// maxMerged is the number of overlapping windows that are merged to find when they end. Of windows that never end, that is the
// end.
const maxMerged = 1000

// scheduleParser accepts minute, hour, day of month, month and day of week.
var scheduleParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// Window is a recurring time in which runs may start.
type Window struct {
	// schedule is evaluated with the clock of location, see next.
	schedule cron.Schedule
	duration time.Duration
	location *time.Location
}

// ParseWindow parses a run window. Schedules have five fields, without seconds, descriptors (@daily) and TZ=.
func ParseWindow(w v2beta2.RunWindow) (Window, error) {
	schedule, scheduleErr := parseSchedule(w.Schedule)
	location, locationErr := parseTimeZone(w.TimeZone)
	var durationErr error
	if w.Duration.Duration < minWindow || w.Duration.Duration > maxWindow {
		durationErr = fmt.Errorf("duration %s must be from 1m to 168h", w.Duration.Duration)
	}
	if err := errors.Join(scheduleErr, locationErr, durationErr); err != nil {
		return Window{}, err
	}
	return Window{schedule: schedule, duration: w.Duration.Duration, location: location}, nil
}

func parseSchedule(text string) (cron.Schedule, error) {
	if strings.Contains(text, "TZ=") {
		return nil, fmt.Errorf("schedule %q must not have a time zone: put it into timeZone", text)
	}
	if strings.HasPrefix(strings.TrimSpace(text), "@") {
		return nil, fmt.Errorf("schedule %q must have the five fields minute, hour, day of month, month and day of week", text)
	}
	parsed, err := scheduleParser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	schedule, ok := parsed.(*cron.SpecSchedule)
	if !ok || slices.Contains([]uint64{schedule.Minute, schedule.Hour, schedule.Dom, schedule.Month, schedule.Dow}, 0) {
		return nil, fmt.Errorf("schedule %q has a field without a value", text)
	}
	schedule.Location = time.UTC
	return schedule, nil
}

func parseTimeZone(name string) (*time.Location, error) {
	location, err := time.LoadLocation(name)
	if err != nil || location == time.Local {
		return nil, fmt.Errorf("timeZone %q is not in the time zone database: use a name such as Europe/Berlin", name)
	}
	return location, nil
}

// next returns the first time after t at which the window opens, or zero if it does not open within five years.
//
// The schedule sees the time of the clock on the wall, as if it were UTC: in the library, a window in the hour that is skipped when
// clocks are put forward would not open on that day, and one in the hour that is repeated would open twice.
func (w Window) next(t time.Time) time.Time {
	for clock := wallClock(t.In(w.location)); ; {
		clock = w.schedule.Next(clock)
		if clock.IsZero() {
			return clock
		}
		if opens := w.at(clock); opens.After(t) {
			return opens.UTC()
		}
	}
}

// at returns when the clock on the wall shows a time: the first time if it does so twice, and the end of the skipped hour if it
// never does. A later clock is never an earlier time.
func (w Window) at(clock time.Time) time.Time {
	found := time.Date(clock.Year(), clock.Month(), clock.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, w.location)
	start, end := found.ZoneBounds()
	shown := wallClock(found)
	switch {
	case shown.Before(clock):
		return end
	case shown.After(clock):
		return start
	case start.IsZero():
		return found
	}
	_, offset := start.Add(-time.Second).Zone()
	if earlier := clock.Add(-time.Duration(offset) * time.Second); earlier.Before(start) {
		return earlier
	}
	return found
}

// wallClock returns what the clock shows at t, as a time in UTC.
func wallClock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
}

// endAt returns when the window ends that is open at t or opens then, the one that opened first if several are. It is zero if
// there is none.
func (w Window) endAt(t time.Time) time.Time {
	opened := w.next(t.Add(-w.duration))
	if opened.IsZero() || opened.After(t) {
		return time.Time{}
	}
	return opened.Add(w.duration)
}

// Open reports whether one of the windows is open, until when (zero if there are none), and when the next one opens if not
// (zero if none opens within five years). Windows that overlap, or follow each other, are one.
func Open(windows []Window, now time.Time) (open bool, until, next time.Time) {
	if len(windows) == 0 {
		return true, time.Time{}, time.Time{}
	}
	if !isOpen(windows, now) {
		return false, time.Time{}, nextOpening(windows, now)
	}
	until = now.UTC()
	for range maxMerged {
		latest := until
		for _, w := range windows {
			if end := w.endAt(until); end.After(latest) {
				latest = end
			}
		}
		if latest.Equal(until) {
			break
		}
		until = latest
	}
	return true, until, time.Time{}
}

func isOpen(windows []Window, now time.Time) bool {
	return len(windows) == 0 || slices.ContainsFunc(windows, func(w Window) bool { return !w.endAt(now).IsZero() })
}

// nextOpening returns when the first window opens, or zero if none does within five years.
func nextOpening(windows []Window, now time.Time) time.Time {
	var first time.Time
	for _, w := range windows {
		if opens := w.next(now); !opens.IsZero() && (first.IsZero() || opens.Before(first)) {
			first = opens
		}
	}
	return first
}
