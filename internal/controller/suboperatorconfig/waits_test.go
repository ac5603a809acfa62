package suboperatorconfig

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Delays grow while an object waits for the same, and begin again when it waits for something else.
func TestWaits(t *testing.T) {
	w, begin := newWaits(), time.Now()
	for _, test := range []struct {
		text        string
		delay       time.Duration
		after, want time.Duration
	}{
		{"a", 5 * time.Second, 0, 5 * time.Second},
		{"a", 5 * time.Second, 10 * time.Second, 5 * time.Second},
		{"a", 5 * time.Second, 4 * time.Minute, time.Minute},
		{"a", 5 * time.Second, time.Hour, 5 * time.Minute},
		{"b", 5 * time.Second, time.Hour, 5 * time.Second},
		{"b", time.Minute, 2 * time.Hour, 5 * time.Minute},
		{"b", time.Second, 3 * time.Hour, time.Second},
		{"b", 0, 3 * time.Hour, 0},
		{"b", 5 * time.Second, 4 * time.Hour, 5 * time.Second},
	} {
		if got := w.delay(types.UID("u"), test.text, test.delay, begin.Add(test.after)); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}
