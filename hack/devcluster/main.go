// Command devcluster builds a one-node Kubernetes cluster from Go modules and Debian packages, without a container registry
// or container engine, and a temporary control plane for tests that only need an API server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `Usage: devcluster COMMAND

  up [--olm] [--images]         start the cluster, or repair what is not running; add the Operator Lifecycle Manager; build and
                                import images meanwhile, those that --only A,B names or all
  down                          stop the cluster and remove its state; binaries and caches stay
  images [--only A,B]           build and import images: manager, runtime, ssh-target, manager-next, runtime-next
  build [--control-plane] [--oldest] [--olm] [--images]  build the binaries only, and the images
  control-plane [--apply PATH] -- CMD [ARG...]  run CMD against a throwaway API server (no root needed)
  stop COMPONENT                kill a component, such as kube-apiserver
  start COMPONENT               start it again, and wait until it is ready
  status                        show what is running
  logs [--lines N] COMPONENT    show the end of a component's log

All files are in .devcluster/ of the repository. export KUBECONFIG=.devcluster/kubeconfig
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	err := run(os.Args[1], os.Args[2:])
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.As(err, &exit) && errors.Is(err, errCommandFailed):
		os.Exit(exitCode(exit))
	default:
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	flags := flag.NewFlagSet("devcluster "+command, flag.ContinueOnError)
	only := flags.String("only", "", "images, up --images: comma-separated names, default all")
	controlPlaneOnly := flags.Bool("control-plane", false, "build: only what control-plane and the specs against it need")
	withOLM := flags.Bool("olm", false, "up, build: with the Operator Lifecycle Manager")
	manifests := flags.String("apply", "", "control-plane: a file or folder of objects that are there before the controllers start")
	oldest := flags.Bool("oldest", false, "build: the API server and controller manager of the oldest supported Kubernetes, too")
	withImages := flags.Bool("images", false, "up, build: the images too; build without a cluster (Linux, root)")
	lines := flags.Int("lines", 50, "logs: how many lines")
	if err := flags.Parse(args); err != nil {
		return err
	}
	project, err := findProject()
	if err != nil {
		return err
	}

	switch command {
	case "up":
		return up(ctx, project, *withOLM, *withImages, splitList(*only))
	case "down":
		return down(ctx, project)
	case "images":
		return images(ctx, project, splitList(*only))
	case "build":
		return buildCommand(ctx, project, buildOptions{controlPlaneOnly: *controlPlaneOnly, oldest: *oldest, olm: *withOLM, images: *withImages})
	case "control-plane":
		stop() // control-plane forwards signals to its command.
		return controlPlane(project, *manifests, flags.Args())
	case "stop":
		return stopComponent(ctx, project, flags.Args())
	case "start":
		return startComponent(ctx, project, flags.Args())
	case "status":
		return status(ctx, project)
	case "logs":
		return logs(ctx, project, flags.Args(), *lines)
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("unknown command %q\n\n%s", command, usage)
}

// exitCode returns the exit code of a command. For a command that a signal has killed, it is the same as in a shell.
func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

func splitList(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}
