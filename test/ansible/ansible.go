// Package ansible is what tests share that run the Ansible of this machine.
package ansible

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Path is a PATH with the system's Ansible.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// versions is the environment variable with the versions of Ansible and of all else that the tests run. hack/test-packages.sh
// prints its value.
const versions = "ENGINE_VERSIONS"

// Need skips the test if a program is missing, see [Skip]. Go does not keep the result for other versions of the programs.
func Need(t *testing.T, programs ...string) {
	t.Helper()
	_ = os.Getenv(versions) // Go keeps a result as long as the variables that the test has read are the same.
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		Skip(t, strings.Join(missing, ", ")+" not found: hack/test-packages.sh installs the Debian packages")
	}
}

// NeedVersions also fails the test if Go would keep its result without knowing the versions: an upgrade of Ansible would go
// unnoticed.
func NeedVersions(t *testing.T, programs ...string) {
	t.Helper()
	Need(t, programs...)
	log := flag.Lookup("test.testlogfile") // Go names a file if it may keep the result.
	if os.Getenv(versions) == "" && log != nil && log.Value.String() != "" {
		t.Fatalf("Go would keep this result after an upgrade of Ansible: run make test-engine, or go test -count=1")
	}
}

// Skip skips the test for a reason, or fails it where everything must be tested: in CI, or with REQUIRE_ANSIBLE=1.
func Skip(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("CI") == "true" || os.Getenv("REQUIRE_ANSIBLE") == "1" {
		t.Fatal("NOT TESTED: " + reason)
	}
	t.Skip("NOT TESTED: " + reason)
}
