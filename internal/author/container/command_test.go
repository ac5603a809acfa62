package container

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func command() Command {
	return Command{
		Image: "registry.example.com/runtime:v1", Program: "/usr/bin/kubectl-collection", Arguments: []string{"run", "--host=u@h", "--", "users", "User"},
		Folder: "/home/a/work", User: User{UID: 1000, GID: 100, Home: "/home/a"},
		Mounts: []Mount{
			{Path: "/home/a/work/users"}, {Path: "/home/a/work/out", Writable: true}, {Path: "/home/a/.ssh/id_ed25519"},
			{Path: "/home/a/work/users/../out"}, // Stays writable.
		},
		Variables: map[string][]byte{"PASSWORD": []byte("hunter2")},
	}
}

func TestAContainerHasWhatIsNamedAndNoMore(t *testing.T) {
	want := []string{
		"run", "--rm", "--interactive", "--pull=never", "--network=host", "--read-only", "--tmpfs=/tmp:exec,mode=1777",
		"--cap-drop=all", "--security-opt=no-new-privileges", "--security-opt=label=disable", "--user=1000:100", "--env=HOME=/home/a",
		"--http-proxy=false", "--userns=keep-id",
		"--mount=type=bind,source=/usr/bin/kubectl-collection,target=/usr/local/bin/collection-init,readonly",
		"--mount=type=bind,source=/tmp/x/passwd,target=/etc/passwd,readonly",
		"--mount=type=bind,source=/home/a/.ssh/id_ed25519,target=/home/a/.ssh/id_ed25519,readonly",
		"--mount=type=bind,source=/home/a/work/out,target=/home/a/work/out",
		"--mount=type=bind,source=/home/a/work/users,target=/home/a/work/users,readonly",
		"--entrypoint=/usr/local/bin/collection-init", "registry.example.com/runtime:v1", "run", "--host=u@h", "--", "users", "User",
	}
	got, err := command().arguments(podman, "/tmp/x/passwd")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all := strings.Join(got, " "); strings.Contains(all, "PASSWORD") || strings.Contains(all, "hunter2") {
		t.Errorf("%s shows a variable", all)
	}
}

func TestArgumentsOfEnginesAndUsers(t *testing.T) {
	for name, tt := range map[string]struct {
		engine      string
		uid         int
		keep, proxy bool
	}{
		"podman of a user": {podman, 1000, true, true},
		"podman of root":   {podman, 0, false, true},
		"docker":           {docker, 1000, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := command()
			c.User.UID = tt.uid
			got, err := c.arguments(tt.engine, "/tmp/x/passwd")
			if err != nil {
				t.Fatal(err)
			}
			all := strings.Join(got, " ")
			if strings.Contains(all, "--userns=keep-id") != tt.keep || strings.Contains(all, "--http-proxy=false") != tt.proxy {
				t.Error(all)
			}
		})
	}
}

func TestPathsThatCannotBeMounted(t *testing.T) {
	c := command()
	c.Mounts = append(c.Mounts, Mount{Path: "/home/a/a,b"}, Mount{Path: `/home/a/a"b`})
	_, err := c.arguments(docker, "/tmp/x/passwd")
	if err == nil || !strings.Contains(err.Error(), `"/home/a/a,b" cannot be mounted`) || !strings.Contains(err.Error(), `"/home/a/a\"b" cannot be mounted`) {
		t.Error(err)
	}
}

func TestEveryUserHasAName(t *testing.T) {
	if got, want := (User{UID: 1000, GID: 100, Home: "/home/a"}).passwd(), "root:x:0:0:root:/root:/bin/sh\nauthor:x:1000:100:author:/home/a:/bin/sh\n"; got != want {
		t.Errorf("got %q", got)
	}
	if got, want := (User{Home: "/root"}).passwd(), "author:x:0:0:author:/root:/bin/sh\n"; got != want {
		t.Errorf("got %q", got)
	}
}
