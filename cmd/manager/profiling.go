package main

import (
	"fmt"
	"net"
)

// checkProfiling refuses addresses that others can reach: a heap profile is read from memory that holds credentials, and a CPU
// profile costs time.
func checkProfiling(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("--pprof-bind-address must be a port of a loopback address, such as 127.0.0.1:6060, and is %q", address)
}
