package runner

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

// answer is what ansible-operator is told.
type answer struct {
	// done means that the playbook has succeeded and nothing is due: ansible-operator removes the finalizer of a resource that
	// is being deleted.
	done bool
	// after is when ansible-operator asks again unless done. 0 means when the resource changes.
	after time.Duration
}

func askAgain(after time.Duration) answer { return answer{after: after} }

// event is a jobEvent of ansible-operator's event API.
type event struct {
	UUID    string         `json:"uuid"`
	Counter int            `json:"counter"`
	Event   string         `json:"event"`
	Data    map[string]any `json:"event_data"`
	// Created has no time zone.
	Created string `json:"created"`
}

func (a answer) event(now time.Time) event {
	e := event{
		UUID: string(uuid.NewUUID()), Counter: 1, Event: "playbook_on_stats", Data: map[string]any{},
		Created: now.UTC().Format("2006-01-02T15:04:05.000000"),
	}
	if !a.done {
		e.Event = "runner_on_ok"
		e.Data = map[string]any{
			"task_action": "operator_sdk.util.requeue_after",
			"res":         map[string]any{"period": roundUp(a.after).String()},
		}
	}
	return e
}

// roundUp rounds to seconds, and so never to 0, which means never.
func roundUp(d time.Duration) time.Duration {
	return max(0, (d + time.Second - 1).Truncate(time.Second))
}

// receiver is the unix socket on which ansible-operator waits for the events of a run.
type receiver struct {
	Socket string `json:"runner_http_url"`
	Path   string `json:"runner_http_path"`
}

func newReceiver(call podfiles.Call) (receiver, error) {
	var r receiver
	if err := podfiles.ReadJSON(call.SettingsFile(), &r); err != nil {
		return receiver{}, err
	}
	if r.Socket == "" {
		return receiver{}, fmt.Errorf("%s has no runner_http_url", call.SettingsFile())
	}
	return r, nil
}

func (r receiver) post(ctx context.Context, a answer) error {
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
