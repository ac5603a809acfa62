//go:build !unix

package local

// AsInit does nothing: containers need Unix.
func AsInit() {}

// AsGate does nothing: Ansible needs Unix.
func AsGate() {}
