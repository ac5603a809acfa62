package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// startable returns the components that startComponent starts, and restarts as they were.
func (n node) startable() []process {
	return []process{n.plane.etcd(), n.apiServer(), n.controllerManager(), n.plane.scheduler(), n.kubelet(), n.proxy(), n.dns()}
}

// stopComponent kills a single component of a running cluster, without a graceful shutdown.
func stopComponent(ctx context.Context, p project, args []string) error {
	return withComponents(p, args, func(n node, want []process) error {
		for _, c := range want {
			if err := n.supervisor().kill(ctx, c.name); err != nil {
				return err
			}
			fmt.Println("stopped", c.name)
		}
		return nil
	})
}

// startComponent starts a single component that stopComponent has stopped, and returns once it is ready.
func startComponent(ctx context.Context, p project, args []string) error {
	return withComponents(p, args, func(n node, want []process) error {
		_, err := ensureAll(ctx, n.supervisor(), want...)
		return err
	})
}

// withComponents calls a function with the named component, while no other command changes the cluster.
func withComponents(p project, args []string, call func(node, []process) error) error {
	n, want, err := namedComponents(p, args)
	if err != nil {
		return err
	}
	unlock, err := lock(p.state("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return call(n, want)
}

// namedComponents returns the component that is the only argument. The cluster must have been started. With the API server
// go the controller manager and the scheduler: in other clusters they exit without it, because they lose their leases. A
// controller manager that went on would mark the node as NotReady, whose lease was not renewed.
func namedComponents(p project, args []string) (node, []process, error) {
	if err := requireRoot(); err != nil {
		return node{}, nil, err
	}
	n := newNode(p)
	if _, err := os.Stat(n.kubeconfig()); err != nil {
		return n, nil, fmt.Errorf("the cluster was not started, run up first: %w", err)
	}
	// The readiness check of the API server needs the certificates.
	if err := n.prepare(); err != nil {
		return n, nil, err
	}
	all := n.startable()
	i := slices.IndexFunc(all, func(c process) bool { return len(args) == 1 && c.name == args[0] })
	if i < 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		return n, nil, errors.New("name one component: " + strings.Join(names, ", "))
	}
	if all[i].name == n.apiServer().name {
		return n, []process{all[i], n.controllerManager(), n.plane.scheduler()}, nil
	}
	return n, all[i : i+1], nil
}
