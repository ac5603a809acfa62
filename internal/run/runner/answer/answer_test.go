package answer

import (
	"testing"
	"time"
)

func TestAnswers(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 8, 7, 0, time.UTC)
	tests := map[string]struct {
		answer Answer
		event  string
		period string
	}{
		"done":        {answer: Answer{Done: true}, event: "playbook_on_stats"},
		"nothing due": {answer: Again(0), event: "runner_on_ok", period: "0s"},
		"soon":        {answer: Again(time.Millisecond), event: "runner_on_ok", period: "1s"},
		"seconds":     {answer: Again(29*time.Second + time.Nanosecond), event: "runner_on_ok", period: "30s"},
		"in the past": {answer: Again(-time.Hour), event: "runner_on_ok", period: "0s"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := test.answer.event(now)
			res, _ := e.Data["res"].(map[string]any)
			period, _ := res["period"].(string)
			if e.Event != test.event || period != test.period || e.UUID == "" || e.Created != "2026-11-22T09:08:07.000000" {
				t.Errorf("got %+v", e)
			}
			if test.period != "" && e.Data["task_action"] != "operator_sdk.util.requeue_after" {
				t.Errorf("task_action is %v", e.Data["task_action"])
			}
		})
	}
}
