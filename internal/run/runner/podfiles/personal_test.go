package podfiles

import (
	"strings"
	"testing"
)

// ssh appends a random suffix of 17 bytes to the path of a socket while it creates it, and Ansible's %C has 40.
func TestPathsOfSocketsAreShort(t *testing.T) {
	f := &Files{StateDir: "/opt/ansible/home/zoscb"}
	folder := f.PersonalFolder("5a1c1e0e-7c1d-4e0e-9f4e-0123456789ab", "2079224004096878988")
	if path := folder + "/" + strings.Repeat("f", 12) + strings.Repeat("c", 40) + strings.Repeat("x", 17); len(path) > 107 {
		t.Errorf("%d bytes: %s", len(path), path)
	}
	if another := f.PersonalFolder("5a1c1e0e-7c1d-4e0e-9f4e-0123456789ab", "2079224004096878989"); another == folder {
		t.Errorf("two runs have %s", folder)
	}
}
