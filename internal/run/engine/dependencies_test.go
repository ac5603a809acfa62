package engine

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/test/ansible"
	"github.com/collection-operator/collection-operator/test/registry"
)

// dependencies is an installed engine whose program "dependencies" runs as in a pod.
type dependencies struct {
	*rig
	mutex    sync.Mutex
	files    map[string][]byte
	requests []*http.Request
	// refuse, if set, selects the requests that are answered with 401.
	refuse func(*http.Request) bool
	server *httptest.Server
}

// newDependencies also starts a server for collections and packages. The collections of the image are those in the folders
// of the tests and those of the system's Ansible.
func newDependencies(t *testing.T) *dependencies {
	t.Helper()
	d := &dependencies{rig: newRig(t), files: map[string][]byte{}}
	if exec.Command("python3", "-m", "pip", "--version").Run() != nil {
		ansible.Skip(t, "pip is missing: hack/test-packages.sh installs the Debian package python3-pip")
	}
	d.server = httptest.NewServer(http.HandlerFunc(d.serve))
	t.Cleanup(d.server.Close)
	for _, folder := range []string{"opt/ansible/collections/ansible_collections/acme", "opt/ansible/content", "runtime", "secret", "t", "image"} {
		if err := os.MkdirAll(filepath.Join(d.root, folder), 0o770); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(d.content, filepath.Join(d.root, "opt/ansible/collections/ansible_collections/acme/demo")); err != nil {
		t.Fatal(err)
	}
	d.content = filepath.Join(d.root, "opt/ansible/content")
	d.write("opt/ansible/content/MANIFEST.json", `{"collection_info": {"namespace": "acme", "name": "demo", "version": "1.0.0", "dependencies": {}}}`)
	d.env = append(d.env, "TMPDIR="+d.root+"/t", "ZOSCB_RUNTIME_DIR="+d.root+"/runtime", "ZOSCB_DEPENDENCY_SECRET_DIR="+d.root+"/secret",
		"ZOSCB_TERMINATION_LOG="+d.root+"/termination", "ZOSCB_DEPENDENCY_RETRY=0.2", "ZOSCB_PROBE_PORT=0",
		"ANSIBLE_COLLECTIONS_PATH="+d.root+"/opt/ansible/collections:"+d.root+"/image")
	return d
}

func (d *dependencies) serve(w http.ResponseWriter, r *http.Request) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.requests = append(d.requests, r)
	if d.refuse != nil && d.refuse(r) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	registry.Handler(d.files).ServeHTTP(w, r)
}

// offer adds files to the server.
func (d *dependencies) offer(collections []registry.Collection, packages []registry.Package) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	maps.Copy(d.files, registry.Files(d.server.URL, collections, packages))
}

type planned map[string]any

// plan writes the plan like the manager, with the test server as Galaxy server and index.
func (d *dependencies) plan(more planned) {
	d.t.Helper()
	plan := planned{
		"collection": "acme.demo", "version": "1.0.0",
		"galaxyURL": d.server.URL + registry.GalaxyPath, "pipIndexURL": d.server.URL + registry.IndexPath,
	}
	maps.Copy(plan, more)
	text, err := json.Marshal(plan)
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("runtime/dependencies.json", string(text))
}

func galaxy(name, version, file string) map[string]string {
	return map[string]string{"name": name, "type": "galaxy", "version": version, "file": file}
}

// python writes a requirements file and returns its entry in the plan.
func (d *dependencies) python(file, content string, options ...string) planned {
	d.write("opt/ansible/content/"+file, content)
	var requirements []string
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-") {
			requirements = append(requirements, line)
		}
	}
	return planned{"file": file, "options": options, "requirements": requirements}
}

func (d *dependencies) command(mode string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), filepath.Join(d.root, "opt/ansible/engine/dependencies"), mode)
	cmd.Env, cmd.Dir = d.env, d.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.credential}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// install runs the init container and returns its termination message.
func (d *dependencies) install() (message, output string) {
	d.t.Helper()
	printed, err := d.command("install").CombinedOutput()
	if err != nil {
		d.t.Fatalf("dependencies install: %v\n%s", err, printed)
	}
	return read(d.t, filepath.Join(d.root, "termination")), string(printed)
}

func (d *dependencies) expectInstalled() {
	d.t.Helper()
	message, output := d.install()
	if _, err := os.Stat(filepath.Join(d.root, "opt/ansible/dependencies/problem")); message != "all dependencies are installed" || err == nil {
		d.t.Fatalf("got %q, marker: %v\n%s", message, err, output)
	}
}

// expectMissing fails the test unless the message contains all parts. It returns the message and the output.
func (d *dependencies) expectMissing(parts ...string) (message, output string) {
	d.t.Helper()
	message, output = d.install()
	if !strings.HasPrefix(message, "DependencyMissing: ") || strings.Contains(message, "\n") {
		d.t.Errorf("got message %q", message)
	}
	for _, part := range parts {
		if !strings.Contains(message, part) {
			d.t.Errorf("message does not say %q: %s\n%s", part, message, output)
		}
	}
	return message, output
}

func (d *dependencies) expectCollection(name, version string) {
	d.t.Helper()
	folder := filepath.Join(d.root, "opt/ansible/collections/ansible_collections", strings.ReplaceAll(name, ".", "/"))
	content, err := os.ReadFile(filepath.Join(folder, "MANIFEST.json"))
	switch {
	case version == "" && err == nil:
		d.t.Errorf("collection %s was installed", name)
	case version != "" && !strings.Contains(string(content), fmt.Sprintf(`"version": "%s"`, version)):
		d.t.Errorf("collection %s is not there in version %s: %v %s", name, version, err, content)
	}
}

// expectModule checks the version of a Python module that Ansible would import, "" for none.
func (d *dependencies) expectModule(module, version string) {
	d.t.Helper()
	cmd := exec.Command("python3", "-c", "import "+module+"; print("+module+".__version__)")
	cmd.Env = append(slices.Clone(d.env), "PYTHONPATH="+filepath.Join(d.root, "opt/ansible/dependencies/site-packages"))
	printed, err := cmd.CombinedOutput()
	if got := strings.TrimSpace(string(printed)); (err != nil) != (version == "") || err == nil && got != version {
		d.t.Errorf("module %s: want version %q, got %v %s", module, version, err, printed)
	}
}

func (d *dependencies) asked() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var paths []string
	for _, r := range d.requests {
		paths = append(paths, r.URL.Path)
	}
	return paths
}

func TestCollectionsFromAGalaxyServer(t *testing.T) {
	d := newDependencies(t)
	d.offer([]registry.Collection{
		{Namespace: "acme", Name: "core", Version: "1.9.0"},
		{Namespace: "acme", Name: "core", Version: "1.10.0", Dependencies: map[string]string{"acme.net": ">=1.0.0"}},
		{Namespace: "acme", Name: "core", Version: "2.0.0"},
		{Namespace: "acme", Name: "net", Version: "1.0.0"}, {Namespace: "acme", Name: "net", Version: "1.5.0"},
		{Namespace: "acme", Name: "exact", Version: "1.0.0-beta.1"},
	}, nil)
	d.plan(planned{"collections": []any{
		galaxy("acme.core", ">=1.9.0,<2.0.0", "collections/requirements.yml"), galaxy("acme.net", "<1.5.0", "MANIFEST.json"),
		galaxy("acme.exact", "1.0.0-beta.1", "requirements.yml"),
	}})
	d.expectInstalled()
	d.expectCollection("acme.core", "1.10.0")
	d.expectCollection("acme.net", "1.0.0")
	d.expectCollection("acme.exact", "1.0.0-beta.1")
	d.expectCollection("acme.demo", "1.0.0")

	before := len(d.asked())
	d.plan(planned{"collections": []any{galaxy("acme.net", "<1.5.0", "MANIFEST.json")}})
	d.expectInstalled() // The second start of the container: everything is fetched again.
	if len(d.asked()) == before {
		t.Error("what an earlier run left was used")
	}
}

func TestCollectionsOfTheImageAndOfTheArchiveNeedNoServer(t *testing.T) {
	d := newDependencies(t)
	own := registry.Collection{Namespace: "acme", Name: "own", Version: "1.0.0", Dependencies: map[string]string{"acme.image": ">=2.0.0", "acme.demo": "*"}}
	d.write("opt/ansible/content/deps/"+own.FileName(), string(own.Archive()))
	d.write("image/ansible_collections/acme/image/galaxy.yml", "{namespace: acme, name: image, version: 2.1.0}")
	d.plan(planned{"collections": []any{
		map[string]string{"name": "deps/" + own.FileName(), "type": "file", "file": "collections/requirements.yml"},
		galaxy("acme.image", "*", "MANIFEST.json"), galaxy("acme.own", ">=1.0.0", "MANIFEST.json"),
	}})
	d.expectInstalled()
	d.expectCollection("acme.own", "1.0.0")
	d.expectCollection("acme.image", "")
	if asked := d.asked(); len(asked) > 0 {
		t.Errorf("the server was asked for %v", asked)
	}
}

func TestCollectionsFromAnAddressAndAnotherServer(t *testing.T) {
	d := newDependencies(t)
	far := registry.Collection{Namespace: "acme", Name: "far", Version: "1.0.0"}
	d.offer([]registry.Collection{far, {Namespace: "acme", Name: "other", Version: "3.0.0"}}, nil)
	other := galaxy("acme.other", "*", "requirements.yml")
	other["source"] = d.server.URL + registry.GalaxyPath
	d.write("secret/galaxyToken", "s3cret-token")
	d.plan(planned{"galaxyURL": "http://127.0.0.1:1/", "collections": []any{
		map[string]string{"name": d.server.URL + "/galaxy/artifacts/" + far.FileName(), "type": "url", "file": "requirements.yml"}, other,
	}})
	d.expectInstalled()
	d.expectCollection("acme.far", "1.0.0")
	d.expectCollection("acme.other", "3.0.0")
	for _, r := range d.requests {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s got the credentials of another server", r.URL)
		}
	}
}

func TestMissingCollectionsAreNamedAllAtOnce(t *testing.T) {
	d := newDependencies(t)
	d.offer([]registry.Collection{
		{Namespace: "acme", Name: "core", Version: "1.0.0"},
		{Namespace: "acme", Name: "left", Version: "1.0.0", Dependencies: map[string]string{"acme.core": ">=1.0.0"}},
		{Namespace: "acme", Name: "right", Version: "1.0.0", Dependencies: map[string]string{"acme.core": "<1.0.0"}},
	}, nil)
	d.plan(planned{"requiresAnsible": ">=99.0", "collections": []any{
		galaxy("acme.absent", ">=7.0.0", "collections/requirements.yml"),
		galaxy("acme.left", "*", "requirements.yml"), galaxy("acme.right", "*", "requirements.yml"),
		galaxy("acme.demo2", "*", "MANIFEST.json"),
		map[string]string{"name": "deps/none.tar.gz", "type": "file", "file": "requirements.yml"},
	}})
	message, _ := d.expectMissing("collection acme.absent >=7.0.0 (from collections/requirements.yml) could not be installed from "+d.server.URL+registry.GalaxyPath+": it has no version that fits",
		"collection acme.core <1.0.0 (from acme.right 1.0.0) and >=1.0.0 (from acme.left 1.0.0)", "acme.demo2 (any version) (from MANIFEST.json)",
		"deps/none.tar.gz", "and meta/runtime.yml requires >=99.0")
	if again, _ := d.install(); again != message {
		t.Errorf("the message is another one each time:\n%s\n%s", message, again)
	}
	d.plan(planned{"collections": []any{galaxy("acme.core", "*", "requirements.yml")}})
	d.server.Close()
	d.expectMissing("Connection refused")
}

func TestPythonPackages(t *testing.T) {
	d := newDependencies(t)
	d.offer(nil, []registry.Package{
		{Name: "zos-one", Version: "1.0"}, {Name: "zos-one", Version: "2.0"}, {Name: "zos-one", Version: "3.0", Requires: []string{"zos-two"}},
		{Name: "zos-two", Version: "1.0", Requires: []string{"PyYAML>=5"}},
	})
	wheel := registry.Package{Name: "zos-local", Version: "0.1"}
	d.write("opt/ansible/content/wheels/"+wheel.FileName(), string(wheel.Wheel()))
	d.plan(planned{"python": []any{
		d.python("collections/requirements.txt", "--no-index\n--find-links ../wheels\nzos-local>=0.1\n", "--no-index", "--find-links", "../wheels"),
		d.python("requirements.txt", "zos-one\nzos-two; python_version > '3'\nPyYAML\n"),
		d.python("roles/x/requirements.txt", "zos-one<3\n"),
	}})
	d.expectInstalled()
	d.expectModule("zos_one", "2.0")
	d.expectModule("zos_two", "1.0")
	d.expectModule("zos_local", "0.1")
	if slices.Contains(d.asked(), "/simple/pyyaml/") || slices.Contains(d.asked(), "/simple/zos-local/") {
		t.Errorf("the index was asked for what is there: %v", d.asked())
	}
	if _, err := os.Stat(filepath.Join(d.root, "opt/ansible/dependencies/site-packages/yaml")); err == nil {
		t.Error("a package of the image was installed again")
	}
}

// What the offline playbook of other brokers' tools leaves in an archive is installed as it is: wheels for each architecture, with their
// requirements, that nothing links to.
func TestPythonPackagesOfAWheelhouse(t *testing.T) {
	d := newDependencies(t)
	d.offer(nil, nil)
	uname, err := exec.Command("uname", "-m").Output()
	if err != nil {
		t.Fatal(err)
	}
	here, other := strings.TrimSpace(string(uname)), "s390x"
	if here == other {
		other = "x86_64"
	}
	wheel, top := registry.Package{Name: "zos-local", Version: "0.1"}, registry.Package{Name: "zos-top", Version: "1.0", Requires: []string{"zos-local"}}
	folder := "opt/ansible/content/collections/wheelhouse/" + here + "/"
	d.write(folder+wheel.FileName(), string(wheel.Wheel()))
	d.write(folder+top.FileName(), string(top.Wheel()))
	d.plan(planned{"python": []any{
		d.python("collections/requirements.txt", "zos-top\n"),
		d.python("collections/wheelhouse/"+here+"/requirements.txt", "zos-local==0.1\n"),
		d.python("collections/wheelhouse/"+other+"/requirements.txt", "zos-for-another-machine==0.1\n"),
	}})
	d.expectInstalled()
	d.expectModule("zos_local", "0.1")
	d.expectModule("zos_top", "1.0")
	if len(d.asked()) > 0 {
		t.Errorf("the index was asked: %v", d.asked())
	}
}

func TestMissingPythonPackagesAreNamedAllAtOnce(t *testing.T) {
	d := newDependencies(t)
	d.offer(nil, []registry.Package{{Name: "zos-one", Version: "1.0"}, {Name: "zos-two", Version: "1.0", Requires: []string{"zos-gone>=4"}}})
	d.plan(planned{"python": []any{
		d.python("a/requirements.txt", "zos-one>=2\nzos-absent\nansible-core>=99\n"),
		d.python("b/requirements.txt", "zos-two\n"),
		d.python("c/requirements.txt", "--no-index\nzos-offline\n", "--no-index"),
	}})
	d.expectMissing("zos-one>=2 (from a/requirements.txt)", "zos-absent (from a/requirements.txt)", "ansible-core>=99 (from a/requirements.txt)",
		"b/requirements.txt", "zos-gone>=4", "zos-offline (from c/requirements.txt) could not be installed from nowhere (--no-index)",
		d.server.URL+registry.IndexPath)
	d.plan(planned{"python": []any{d.python("a/requirements.txt", "zos-one\n")}})
	d.server.Close()
	d.expectMissing("the server was not reached", "Connection refused")
}

func TestPythonPackagesThatExcludeEachOther(t *testing.T) {
	d := newDependencies(t)
	d.offer(nil, []registry.Package{
		{Name: "zos-one", Version: "1.0"}, {Name: "zos-one", Version: "2.0"}, {Name: "zos-two", Version: "1.0", Requires: []string{"zos-one<2"}},
		{Name: "ansible-core", Version: "99.0"},
	})
	d.plan(planned{"python": []any{
		d.python("a/requirements.txt", "zos-one>=2\n"), d.python("b/requirements.txt", "zos-one==1.0\n"),
		d.python("c/requirements.txt", "zos-two\n"), d.python("d/requirements.txt", "ansible-core>=99\n"),
	}})
	d.expectMissing("these exclude each other: zos-one>=2 (from a/requirements.txt), zos-one==1.0 (from b/requirements.txt)",
		"zos-two 1.0 depends on zos-one<2", "ansible-core>=99 (from d/requirements.txt), ansible-core==2", "(from the runtime image)")
	d.expectModule("zos_one", "")
}

func TestDependenciesHealInTheWaitingContainer(t *testing.T) {
	d := newDependencies(t)
	d.plan(planned{"collections": []any{galaxy("acme.late", "*", "requirements.yml"), galaxy("acme.later", "*", "requirements.yml")}})
	d.offer(nil, nil)
	d.expectMissing("acme.late (any version)", "acme.later (any version)")

	// The entrypoint runs no playbook now: it waits, and exits when the problem changes and when it is resolved.
	wait := func() (int, string) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(d.root, "opt/ansible/engine/entrypoint"), "run")
		cmd.Env, cmd.Dir = d.env, d.root
		printed, _ := cmd.CombinedOutput()
		t.Logf("%s", printed)
		return cmd.ProcessState.ExitCode(), read(t, filepath.Join(d.root, "termination"))
	}
	time.AfterFunc(3*time.Second, func() { d.offer([]registry.Collection{{Namespace: "acme", Name: "late", Version: "1.0.0"}}, nil) })
	if code, message := wait(); code != 1 || strings.Contains(message, "acme.late ") || !strings.Contains(message, "acme.later ") {
		t.Fatalf("ended with %d: %s", code, message)
	}
	d.offer([]registry.Collection{{Namespace: "acme", Name: "late", Version: "1.0.0"}, {Namespace: "acme", Name: "later", Version: "1.0.0"}}, nil)
	if code, message := wait(); code != 0 || message != "all dependencies are installed" {
		t.Fatalf("ended with %d: %s", code, message)
	}
	d.expectCollection("acme.later", "1.0.0")
	if _, err := os.Stat(filepath.Join(d.root, "opt/ansible/dependencies/problem")); err == nil {
		t.Error("the marker is still there")
	}
}

func TestDependencyCredentials(t *testing.T) {
	d := newDependencies(t)
	d.refuse = func(r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, registry.GalaxyPath) {
			return r.Header.Get("Authorization") != "Token s3cret-token"
		}
		return user != "pip user" || password != `s3cret "pass"\word`
	}
	d.offer([]registry.Collection{{Namespace: "acme", Name: "core", Version: "1.0.0"}}, []registry.Package{{Name: "zos-one", Version: "1.0"}})
	d.plan(planned{"collections": []any{galaxy("acme.core", "*", "requirements.yml")}, "python": []any{d.python("requirements.txt", "zos-one\n")}})
	d.expectMissing("acme.core", "zos-one", "401")

	d.write("secret/galaxyToken", "s3cret-token\n")
	d.write("secret/pipUsername", "pip user")
	d.write("secret/pipPassword", `s3cret "pass"\word`)
	d.expectInstalled()

	d.refuse = func(*http.Request) bool { return true }
	message, output := d.expectMissing("acme.core", "zos-one", "401")
	if strings.Contains(message+output, "s3cret") {
		t.Errorf("a secret was printed: %s\n%s", message, output)
	}
}

func TestDependenciesOverTLS(t *testing.T) {
	d := newDependencies(t)
	d.server.Close()
	d.server = httptest.NewUnstartedServer(http.HandlerFunc(d.serve))
	d.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	d.server.StartTLS()
	t.Cleanup(d.server.Close)
	d.offer([]registry.Collection{{Namespace: "acme", Name: "core", Version: "1.0.0"}}, []registry.Package{{Name: "zos-one", Version: "1.0"}})
	d.plan(planned{"collections": []any{galaxy("acme.core", "*", "requirements.yml")}, "python": []any{d.python("requirements.txt", "zos-one\n")}})
	d.expectMissing("acme.core", "zos-one", "certificate")

	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.server.Certificate().Raw})
	d.write("secret/ca.crt", string(certificate))
	d.expectInstalled()
}

func TestDependenciesUnderAnyUserID(t *testing.T) {
	if os.Getuid() != 0 {
		ansible.Skip(t, "only root can run a program as another user")
	}
	d := newDependencies(t)
	d.credential = &syscall.Credential{Uid: 1000680000, Gid: 0}
	command(t, "chmod", "-R", "g+rwX", d.root)
	d.offer([]registry.Collection{{Namespace: "acme", Name: "core", Version: "1.0.0"}}, []registry.Package{{Name: "zos-one", Version: "1.0"}})
	d.plan(planned{"collections": []any{galaxy("acme.core", "*", "requirements.yml")}, "python": []any{d.python("requirements.txt", "zos-one\n")}})
	command(t, "chmod", "-R", "g+rwX", d.root)
	d.expectInstalled()
	d.expectCollection("acme.core", "1.0.0")
	d.expectModule("zos_one", "1.0")
}

func TestDependenciesNeverCrash(t *testing.T) {
	d := newDependencies(t)
	d.plan(planned{"requiresAnsible": "nonsense"})
	d.expectMissing("the installation failed")
}
