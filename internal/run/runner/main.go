// Package runner is the gate's input and output: the program that ansible-operator starts as ansible-runner. It reads what a
// decision depends on, calls gate.Decide, runs the real ansible-runner if the playbook is to run, and writes what the run did
// to the resource. It never waits for something else to happen: "not now" is an answer to ansible-operator.
package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/collection-operator/collection-operator/internal/run/podclient"
	"github.com/collection-operator/collection-operator/internal/run/podlock"
)

// Main handles one call of ansible-runner and returns the exit code. Only calls of the form that ansible-operator uses pass
// the gate; others go to the real program.
func Main(ctx context.Context, intervals Intervals, args []string) int {
	if len(args) == 0 || args[0] != "run" {
		return fail(execReal(args))
	}
	call, err := parseCall(args)
	if err != nil {
		return fail(err)
	}
	receiver, err := newReceiver(call.dir)
	if err != nil {
		return fail(err)
	}
	out := openOutput(call.ident)
	result := handle(ctx, intervals, call, out)
	if err := call.artifacts().end(call.ident); err != nil {
		out.note("artifacts: %v", err)
	}
	return fail(receiver.post(ctx, result))
}

func fail(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "gate:", err)
	return 1
}

// handle returns what to tell ansible-operator.
func handle(ctx context.Context, intervals Intervals, call call, out *output) answer {
	r, err := open(intervals, call, out)
	if err != nil {
		out.note("the gate cannot be used: %v", err)
		return askAgain(intervals.Retry)
	}
	result, err := r.handle(ctx)
	if apierrors.IsConflict(err) {
		return askAgain(intervals.Conflict)
	}
	if err != nil {
		r.out.note("no run is started: %v", err)
		return askAgain(intervals.Retry)
	}
	return result
}

// open reads everything but the cluster.
func open(intervals Intervals, call call, out *output) (*runner, error) {
	files, err := readFiles(call.dir)
	if err != nil {
		return nil, err
	}
	out.setResource(files.kindName, files.namespace, files.name)
	if err := adoptOrphans(); err != nil {
		return nil, fmt.Errorf("become the parent of orphans: %w", err)
	}
	client, err := podclient.New()
	if err != nil {
		return nil, err
	}
	lock, err := podlock.FromEnvironment(client, files.settings.Operator)
	if err != nil {
		return nil, err
	}
	return &runner{
		call: call, files: files, out: out, podLock: lock, client: client, resource: newResource(client, files),
		journal: journal{dir: files.stateDir}, tickets: newTickets(files.stateDir, intervals), intervals: intervals,
	}, nil
}

// call is a call of ansible-runner by ansible-operator.
type call struct {
	dir, playbook, ident string
}

// parseCall reads the arguments "run DIR --rotate-artifacts N -p PLAYBOOK -i IDENT [-v...]". The number of artifacts and the
// verbosity are not ansible-operator's to decide.
func parseCall(args []string) (call, error) {
	var c call
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case slices.Contains([]string{"--rotate-artifacts", "-p", "-i"}, arg):
			i++
			if i == len(args) {
				return call{}, fmt.Errorf("argument %s has no value", arg)
			}
			switch arg {
			case "-p":
				c.playbook = args[i]
			case "-i":
				c.ident = args[i]
			}
		case arg[:min(2, len(arg))] == "-v":
		case c.dir == "":
			c.dir = arg
		default:
			return call{}, fmt.Errorf("unexpected argument %s", arg)
		}
	}
	if c.dir == "" || c.playbook == "" || c.ident == "" {
		return call{}, errors.New("usage: ansible-runner run DIR --rotate-artifacts N -p PLAYBOOK -i IDENT")
	}
	return c, nil
}

// realRunner is the environment variable with the path of the real ansible-runner.
const realRunner = "ZOSCB_ANSIBLE_RUNNER"

func execReal(args []string) error {
	path, err := exec.LookPath(os.Getenv(realRunner))
	if err != nil {
		return fmt.Errorf("%s: %w", realRunner, err)
	}
	return syscall.Exec(path, append([]string{"ansible-runner"}, args...), os.Environ())
}
