package local

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/author/container"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestAllFlagsAreKnownToTheContainer(t *testing.T) {
	for _, command := range []*cobra.Command{runCommand(), testCommand()} {
		command.InitDefaultHelpFlag()
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if _, known := flagUses[flag.Name]; !known {
				t.Errorf("say in flagUses what the value of --%s of %s means for a container", flag.Name, command.Name())
			}
		})
	}
}

func TestWhatTheContainerGets(t *testing.T) {
	home := t.TempDir()
	knownHosts, key := filepath.Join(home, ".ssh", "known_hosts"), filepath.Join(home, ".ssh", "id_ecdsa")
	clitest.Write(t, knownHosts, "")
	clitest.Write(t, key, "")
	clitest.Write(t, filepath.Join(home, ".ssh", "id_rsa"), "")
	t.Setenv("SSL_CERT_FILE", "")
	t.Setenv("LPAR_PASSWORD", "hunter2")
	read := func(paths ...string) (mounts []container.Mount) {
		for _, path := range paths {
			mounts = append(mounts, container.Mount{Path: path})
		}
		return mounts
	}
	for name, tt := range map[string]struct {
		command   *cobra.Command
		args      []string
		arguments []string
		mounts    []container.Mount
	}{
		"the least": {
			runCommand(), []string{"users", "User", "-f", "user.yaml", "--host", "u@h", "--container"},
			[]string{"run", "--filename=user.yaml", "--host=u@h", "--", "users", "User"},
			read("/work/user.yaml", "/work/users", knownHosts, key),
		},
		"on no system": {
			runCommand(), []string{".", "User", "-f", "/a/user.yaml", "--local", "--watch", "--check", "--container"},
			[]string{"run", "--check=true", "--filename=/a/user.yaml", "--local=true", "--", ".", "User"},
			read("/a/user.yaml", "/work"),
		},
		"files elsewhere": {
			runCommand(), []string{"../users", "User", "-f", "../user.yaml", "-f", "x/endpoint.yaml", "--key", "~key", "--known-hosts", "hosts", "--host=u@h", "--secret-file", "s/k=../p=1", "--container", "--image=i"},
			[]string{"run", "--filename=/user.yaml", "--filename=x/endpoint.yaml", "--host=u@h", "--key=~key", "--known-hosts=hosts", "--secret-file=s/k=/p=1", "--", "/users", "User"},
			read("/user.yaml", "/work/x/endpoint.yaml", "/work/~key", "/work/hosts", "/p=1", "/users"),
		},
		"outputs": {
			runCommand(), []string{"users", "User", "-f", "user.yaml", "--objects", "out", "--password-env", "LPAR_PASSWORD", "--secret-env", "s/k=LPAR_PASSWORD", "--container"},
			[]string{"run", "--filename=user.yaml", "--objects=out", "--password-env=LPAR_PASSWORD", "--secret-env=s/k=LPAR_PASSWORD", "--", "users", "User"},
			append(append(read("/work/user.yaml"), container.Mount{Path: "/work/out", Writable: true}), read("/work/users", knownHosts)...),
		},
		"test": {
			testCommand(), []string{"users", "--local", "--junit", "/r/report.xml", "--scenario", "a", "--scenario", "b", "-v", "--container-tool", "t", "--container"},
			[]string{"test", "--junit=/r/report.xml", "--local=true", "--scenario=a", "--scenario=b", "--verbose=true", "--", "users"},
			append([]container.Mount{{Path: "/r/report.xml", Writable: true}}, read("/work/users")...),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tt.command.ParseFlags(tt.args); err != nil {
				t.Fatal(err)
			}
			call := newContainerCall("/work", home, tt.command, tt.command.Flags().Args())
			if diff := cmp.Diff(tt.arguments, call.arguments); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.mounts, call.mounts); diff != "" {
				t.Error(diff)
			}
			_, passed := call.environment()["LPAR_PASSWORD"]
			if named := strings.Contains(strings.Join(tt.args, " "), "LPAR_PASSWORD"); passed != named || strings.Contains(strings.Join(call.arguments, " "), "hunter2") {
				t.Errorf("the variable is passed: %t, in %q", passed, call.arguments)
			}
		})
	}
}

func TestOutputsAreCreatedAndRemovedIfEmpty(t *testing.T) {
	folder := t.TempDir()
	report, objects, full := filepath.Join(folder, "report.xml"), filepath.Join(folder, "a", "objects"), filepath.Join(folder, "full")
	for range 2 {
		c := &containerCall{newFiles: []string{report}, newFolders: []string{objects, full}}
		if err := c.createOutputs(); err != nil {
			t.Fatal(err)
		}
		clitest.Write(t, filepath.Join(full, "object.yaml"), "")
		c.removeEmpty()
		got := [][]string{clitest.Names(t, folder), clitest.Names(t, full), clitest.Names(t, filepath.Join(folder, "a"))}
		if diff := cmp.Diff([][]string{{"a", "full"}, {"object.yaml"}, nil}, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTheToolFitsTheImage(t *testing.T) {
	own, err := (&containerFlags{image: "i"}).program(runtime.GOOS + "/" + runtime.GOARCH)
	if err != nil || !filepath.IsAbs(own) {
		t.Error(own, err)
	}
	_, err = (&containerFlags{image: "i"}).program("linux/vax")
	if err == nil || !strings.Contains(err.Error(), "the image i is for linux/vax and this program for") || !strings.Contains(err.Error(), "--container-tool") {
		t.Error(err)
	}
	if other, err := (&containerFlags{tool: "/t"}).program("linux/vax"); other != "/t" || err != nil {
		t.Error(other, err)
	}
}

func TestContainerRefusesItsFlags(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "users")
	mustRun(t, kit.ExitClean, "init", folder)
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"test", folder, "--local", "--image=i"}, "--image is for --container"},
		{[]string{"run", folder, "Users", "--local", "--container-tool=i"}, "--container-tool is for --container"},
		{[]string{"test", folder, "--local", "--container"}, "neither podman nor docker is on PATH"},
		{[]string{"run", folder, "Users", "--local", "--container"}, "give the resource with --filename"},
	} {
		if code, _, stderr := tool(t, tt.args...); code != kit.ExitFailure || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q ended with %d and printed %q, want %q", tt.args, code, stderr, tt.want)
		}
	}
}
