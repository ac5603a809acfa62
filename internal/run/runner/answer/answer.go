// Package answer tells ansible-operator the result of a call, over its event API.
package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
)

// Answer is what ansible-operator is told.
type Answer struct {
	// Done means that the playbook has succeeded and nothing is due: ansible-operator removes the finalizer of a resource that
	// is being deleted.
	Done bool
	// After is when ansible-operator asks again unless Done. 0 means when the resource changes.
	After time.Duration
}

// Again is the answer after which ansible-operator asks again.
func Again(after time.Duration) Answer { return Answer{After: after} }

// event is a jobEvent of ansible-operator's event API.
type event struct {
	UUID    string         `json:"uuid"`
	Counter int            `json:"counter"`
	Event   string         `json:"event"`
	Data    map[string]any `json:"event_data"`
	// Created has no time zone.
	Created string `json:"created"`
}

func (a Answer) event(now time.Time) event {
	e := event{
		UUID: string(uuid.NewUUID()), Counter: 1, Event: "playbook_on_stats", Data: map[string]any{},
		Created: now.UTC().Format("2006-01-02T15:04:05.000000"),
	}
	if !a.Done {
		e.Event = "runner_on_ok"
		e.Data = map[string]any{
			"task_action": "operator_sdk.util.requeue_after",
			"res":         map[string]any{"period": roundUp(a.After).String()},
		}
	}
	return e
}

// roundUp rounds to seconds, and so never to 0, which means never.
func roundUp(d time.Duration) time.Duration {
	return max(0, (d + time.Second - 1).Truncate(time.Second))
}

// Receiver is the unix socket on which ansible-operator waits for the events of a run.
type Receiver struct {
	Socket string `json:"runner_http_url"`
	Path   string `json:"runner_http_path"`
}

// NewReceiver returns that of a call.
func NewReceiver(call podfiles.Call) (Receiver, error) {
	var r Receiver
	if err := podfiles.ReadJSON(call.SettingsFile(), &r); err != nil {
		return Receiver{}, err
	}
	if r.Socket == "" {
		return Receiver{}, fmt.Errorf("%s has no runner_http_url", call.SettingsFile())
	}
	return r, nil
}

// Post sends an answer.
func (r Receiver) Post(ctx context.Context, a Answer) error {
	body, err := json.Marshal(a.event(time.Now()))
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+r.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", r.Socket)
		},
	}}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("answer ansible-operator: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusMultipleChoices {
		message, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return fmt.Errorf("answer ansible-operator: %s: %s", response.Status, message)
	}
	return nil
}
