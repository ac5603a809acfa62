//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

var errNotLinux = errors.New("only on Linux")

func bootID() string { return "" }

// processStart returns the start time of a process from ps, with a resolution of one second.
func processStart(pid int) (string, bool) {
	output, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	start := strings.TrimSpace(string(output))
	return start, err == nil && start != ""
}

func onOverlay(string) bool        { return false }
func unmountBelow(...string) error { return errNotLinux }
func processes() []int             { return nil }
