package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

var componentNames = []string{"etcd", "containerd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "coredns"}

// status prints the state of each component's process and of the node.
func status(ctx context.Context, p project) error {
	n := newNode(p)
	for _, name := range componentNames {
		state := "not running"
		if have, ok := n.supervisor().read(name); ok && have.alive() {
			state = fmt.Sprintf("running, process %d", have.PID)
		} else if ok {
			state = "died; run up to repair"
		}
		fmt.Printf("%-24s %s\n", name, state)
	}
	if _, err := os.Stat(p.kubeconfig()); err != nil {
		return nil
	}
	if err := n.nodeReady(ctx); err != nil {
		fmt.Printf("%-24s not Ready: %v\n", "node", err)
		return nil
	}
	fmt.Printf("%-24s Ready\n", "node")
	if n.hasOLM() {
		state := "running, in pods"
		if err := n.olmReady(ctx); err != nil {
			state = fmt.Sprintf("not ready: %v", err)
		}
		fmt.Printf("%-24s %s\n", "olm", state)
	}
	return nil
}

// logs prints the end of a component's log.
func logs(ctx context.Context, p project, args []string, lines int) error {
	if len(args) != 1 {
		return errors.New("name one component: " + strings.Join(slices.Concat(componentNames, olmDeployments), ", "))
	}
	n := newNode(p)
	if slices.Contains(olmDeployments, args[0]) {
		printed, err := n.plane.kubectl(ctx, "", "logs", "--namespace="+olmNamespace, "deployment/"+args[0], fmt.Sprintf("--tail=%d", lines))
		fmt.Println(printed)
		return err
	}
	s := n.supervisor()
	if _, err := os.Stat(s.logFile(args[0])); err != nil {
		return fmt.Errorf("no log of %q: %w", args[0], err)
	}
	fmt.Println(s.tail(args[0], lines))
	return nil
}
