//go:build e2e

package e2e

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// environment is a namespace with systems and collections of its own, all of one domain.
type environment struct {
	namespace, domain string
}

// start creates the namespace, and a web server that serves the archives.
func (e *environment) start(ctx context.Context, archives map[string][]byte) {
	GinkgoHelper()
	e.remove(ctx)
	Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}},
		&corev1.ConfigMap{ObjectMeta: e.meta("archives"), BinaryData: archives},
	)
	applyManifest(ctx, "archives.yaml", "NAMESPACE", e.namespace, "CONFIGMAP", "archives")
	kubectl(ctx, "rollout", "status", "-n", e.namespace, "deployment/archives", "--timeout=3m")
}

func (e *environment) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: e.namespace}
}

// spec imports an archive of the environment's web server. Its deletion runs the finalizer playbooks.
func (e *environment) spec(file string, archive []byte) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{
		CollectionURL: "http://archives." + e.namespace + ".svc.cluster.local/" + file, Digest: DigestOf(archive), DeletionPolicy: v2beta2.DeletionFinalize,
	}
}

// install imports an archive and waits until its operator runs. The manager makes the default SubOperatorConfig.
func (e *environment) install(ctx context.Context, name, file string, archive []byte) {
	GinkgoHelper()
	e.installSpec(ctx, name, e.spec(file, archive))
}

// installSpec is install with more than the archive.
func (e *environment) installSpec(ctx context.Context, name string, spec v2beta2.OperatorCollectionSpec) {
	GinkgoHelper()
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta(name), Spec: spec}
	Create(ctx, oc)
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
}

// endpoint registers a system under a name and waits until the manager knows its host key.
func (e *environment) endpoint(ctx context.Context, name string, spec v2beta2.ZosEndpointSpec) *v2beta2.ZosEndpoint {
	GinkgoHelper()
	endpoint := &v2beta2.ZosEndpoint{ObjectMeta: e.meta(name), Spec: spec}
	Create(ctx, endpoint)
	Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(ConditionTrue())
	return endpoint
}

// credential creates a Secret to log on with.
func (e *environment) credential(ctx context.Context, name string, data map[string]string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: e.meta(name), StringData: data}
	secret.Labels = map[string]string{"zoscb.ibm.com/credential": "true"}
	Create(ctx, secret)
	return secret
}

func (e *environment) instance(version, kind, name string, spec map[string]any) *unstructured.Unstructured {
	return Instance(version, kind, e.namespace, name, spec)
}

// inOperator runs a script in the pod of an operator.
func (e *environment) inOperator(ctx context.Context, deployment, script string) string {
	GinkgoHelper()
	return kubectl(ctx, "exec", "-n", e.namespace, "deployment/"+deployment, "-c", "operator", "--", "/bin/sh", "-euc", script)
}

// operatorPod is the one pod of an operator, once its former pod is gone.
func (e *environment) operatorPod(ctx context.Context, name string) types.UID {
	GinkgoHelper()
	var uid types.UID
	Eventually(ctx, func(g Gomega) {
		var pods corev1.PodList
		g.Expect(K8s.List(ctx, &pods, client.InNamespace(e.namespace), client.MatchingLabels{"operator-name": name})).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(1))
		uid = pods.Items[0].UID
	}).Should(Succeed())
	return uid
}

// letInstall lets a method be chosen in namespaces. For OLM, which needs an OperatorGroup, it is what their administrator does.
func letInstall(ctx context.Context, method v2beta2.InstallMethod, namespaces ...string) {
	GinkgoHelper()
	if method != v2beta2.InstallOLM {
		return
	}
	expectOLM(ctx)
	for _, name := range namespaces {
		operatorGroup(ctx, name)
	}
}

// expectInstalledBy expects that all installations of a SubOperatorConfig are made by a method.
func expectInstalledBy(ctx context.Context, soc *v2beta2.SubOperatorConfig, method v2beta2.InstallMethod) {
	GinkgoHelper()
	live := &v2beta2.SubOperatorConfig{}
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(soc), live)).To(Succeed())
	Expect(live.Status.Installations).To(And(Not(BeEmpty()), HaveEach(HaveField("Install", method))))
}

// remove removes what a run left, also a run that was killed: the SSH servers may be gone already.
func (e *environment) remove(ctx context.Context) {
	GinkgoHelper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}
	if K8s.Get(ctx, client.ObjectKeyFromObject(space), space) != nil {
		return
	}
	Expect(K8s.DeleteAllOf(ctx, &v2beta2.OperatorCollection{}, client.InNamespace(e.namespace))).To(Succeed())
	var crds apiextensionsv1.CustomResourceDefinitionList
	Expect(K8s.List(ctx, &crds, client.MatchingLabels{"operator-domain": e.domain})).To(Succeed())
	var collections v2beta2.OperatorCollectionList
	Eventually(ctx, func(g Gomega) {
		for i := range crds.Items {
			e.dropFinalizers(ctx, &crds.Items[i])
		}
		e.endOperators(ctx)
		g.Expect(K8s.List(ctx, &collections, client.InNamespace(e.namespace))).To(Succeed())
		g.Expect(collections.Items).To(BeEmpty())
	}).WithTimeout(InstallTimeout).Should(Succeed())
	for i := range crds.Items {
		Remove(ctx, &crds.Items[i])
	}
	Remove(ctx, space)
	Eventually(ctx, func(g Gomega) {
		for i := range crds.Items { // Their instances may have had no operator any more.
			e.dropFinalizers(ctx, &crds.Items[i])
		}
		g.Expect(Gone(ctx, space)(g)).To(BeTrue())
	}).Should(Succeed())
}

// dropFinalizers lets instances of a kind that are being deleted go without their finalizer playbooks.
func (e *environment) dropFinalizers(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(crd.Spec.Group + "/" + crd.Spec.Versions[0].Name)
	list.SetKind(crd.Spec.Names.ListKind)
	if err := K8s.List(ctx, list); err != nil {
		return
	}
	for i := range list.Items {
		if list.Items[i].GetDeletionTimestamp() != nil {
			_ = K8s.Patch(ctx, &list.Items[i], client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		}
	}
}

// endOperators ends at once the operators that wait for runs whose instances are gone.
func (e *environment) endOperators(ctx context.Context) {
	var pods corev1.PodList
	if err := K8s.List(ctx, &pods, client.InNamespace(e.namespace), client.HasLabels{"operator-name"}); err != nil {
		return
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			_ = K8s.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
		}
	}
}

// explain prints what one needs to understand a spec that failed.
func (e *environment) explain(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	kinds, _ := Output(ctx, kubectlPath(), "api-resources", "--api-group="+SharedGroup, "--verbs=list", "--output=name")
	for _, args := range [][]string{
		{"get", "pods,deployments,zoscb", "-n", e.namespace, "-o", "wide"},
		{"get", strings.Join(strings.Fields(kinds), ","), "-n", e.namespace, "-o", "yaml"},
		{"logs", "-n", ManagerNamespace, "-l", ManagerSelector, "--tail=30"},
		{"logs", "-n", e.namespace, "-l", "operator-name", "-c", "operator", "--tail=120"},
		{"logs", "-n", e.namespace, "-l", "system", "--tail=60"},
	} {
		printed, _ := Output(ctx, kubectlPath(), args...)
		GinkgoWriter.Printf("\n$ kubectl %s\n%s\n", strings.Join(args, " "), printed)
	}
}

// cleanUp removes the environment at the end of its specs, unless it is to be kept.
func (e *environment) cleanUp(ctx context.Context) {
	if os.Getenv("E2E_KEEP") == "" {
		e.remove(ctx)
	}
}

// archivesOf builds one archive of each folder.
func archivesOf(folders map[string]fs.FS) map[string][]byte {
	GinkgoHelper()
	built := map[string][]byte{}
	for file, folder := range folders {
		built[file] = Build(folder)
	}
	return built
}

// system is an SSH server whose keys and files the specs change while it runs.
type system struct {
	environment *environment
	name, user  string
	// password lets the user log on, unless it is empty.
	password string
	// stoppable lets down and up work.
	stoppable bool
	// authorizedKeys holds the public key of each owner who may log on.
	authorizedKeys map[string]string
	// secrets are texts that must be nowhere but in Secrets: a line of each key, passphrases, passwords.
	secrets []string
}

// systemScript makes the SFTP server tell which files it is asked for, before the image's own script starts sshd.
const systemScript = `
server=/usr/lib/openssh/sftp-server
[ -e $server.real ] || mv $server $server.real
printf '#!/bin/sh\nexec %s.real -e -l INFO 2>>/tmp/sftp.log\n' $server >$server
chmod 755 $server
touch /tmp/sftp.log
chmod 666 /tmp/sftp.log
`

// stoppableScript runs the image's own script. From the time at which that is killed it runs sshd, or, while there is a file
// /tmp/down, a server that closes each connection at once and leaves a line in /tmp/attempts for it. The readiness probe looks
// for its name.
const stoppableScript = `
ln -sf "$(command -v python3)" /tmp/sshd
/usr/local/bin/ssh-target || true
while :; do
	if [ -e /tmp/down ]; then
		/tmp/sshd -c '
import socket
server = socket.create_server(("", 22))
while True:
    connection, _ = server.accept()
    with open("/tmp/attempts", "a") as attempts:
        print("attempt", file=attempts)
    connection.close()
' || true
	else
		/usr/sbin/sshd -D -e -f /run/ssh-target/sshd_config 2>&1 || true
	fi
	sleep 0.2
done
`

// start starts the SSH server. Nobody's key is authorized.
func (s *system) start(ctx context.Context) {
	GinkgoHelper()
	s.authorizedKeys = map[string]string{}
	labels := map[string]string{"system": s.name}
	script := systemScript + "exec /usr/local/bin/ssh-target\n"
	if s.stoppable {
		script = systemScript + stoppableScript
	}
	container := corev1.Container{
		Name: "sshd", Image: "localhost/collection-operator/ssh-target:dev", ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{"/bin/sh", "-euc", script},
		Env: []corev1.EnvVar{
			{Name: "SSH_USER", Value: s.user}, {Name: "SSH_PASSWORD", Value: s.password}, {Name: "SSHD_OPTIONS", Value: "MaxStartups 100"},
		},
		// Many playbooks at the same time leave the probe little of the processor.
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 30, ProbeHandler: corev1.ProbeHandler{
			Exec: &corev1.ExecAction{Command: []string{"/bin/sh", "-c", "grep -qx sshd /proc/[0-9]*/comm"}},
		}},
	}
	deployment := &appsv1.Deployment{ObjectMeta: s.environment.meta(s.name), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{container}, TerminationGracePeriodSeconds: new(int64)},
		},
	}}
	service := &corev1.Service{ObjectMeta: s.environment.meta(s.name), Spec: corev1.ServiceSpec{
		Selector: labels, Ports: []corev1.ServicePort{{Name: "ssh", Port: 22, TargetPort: intstr.FromInt32(22)}},
	}}
	Create(ctx, deployment, service)
	kubectl(ctx, "rollout", "status", "-n", s.environment.namespace, "deployment/"+s.name, "--timeout=3m")
}

func (s *system) host() string { return s.name + "." + s.environment.namespace + ".svc.cluster.local" }

// authorize lets the owner's public key in, instead of the one that the owner had before.
func (s *system) authorize(ctx context.Context, owner, public string) {
	GinkgoHelper()
	s.authorizedKeys[owner] = public
	all := strings.Join(slices.Sorted(maps.Values(s.authorizedKeys)), "")
	s.shell(ctx, "cat >/run/ssh-target/authorized_keys <<'END'\n"+all+"END\n")
}

// shell runs a script as root in the system's container, not over SSH.
func (s *system) shell(ctx context.Context, script string) string {
	GinkgoHelper()
	return kubectl(ctx, "exec", "-n", s.environment.namespace, "deployment/"+s.name, "--", "/bin/sh", "-euc", script)
}

// down replaces the SSH server by one that accepts no session, and ends all sessions and what they started.
func (s *system) down(ctx context.Context) {
	GinkgoHelper()
	s.shell(ctx, "rm -f /tmp/attempts; touch /tmp/down\n"+s.endServers())
}

func (s *system) up(ctx context.Context) {
	GinkgoHelper()
	s.shell(ctx, "[ -e /tmp/down ] || exit 0; rm /tmp/down\n"+s.endServers())
}

// endServers is a script that kills the SSH server, or what runs in its place, and all that its sessions started.
func (s *system) endServers() string {
	return `for process in /proc/[0-9]*; do
	case "${process#/proc/}:$(cat $process/comm 2>/dev/null):$(stat -c %U $process 2>/dev/null)" in
	1:*) ;;
	*:sshd*:*|*:` + s.user + `) kill -9 ${process#/proc/} 2>/dev/null || true ;;
	esac
done`
}

// attempts is how often somebody connected to the system since it is down.
func (s *system) attempts(ctx context.Context) int {
	GinkgoHelper()
	return strings.Count(s.shell(ctx, "cat /tmp/attempts 2>/dev/null || true"), "attempt")
}

// log is what the SSH server wrote.
func (s *system) log(ctx context.Context) string {
	GinkgoHelper()
	return kubectl(ctx, "logs", "-n", s.environment.namespace, "deployment/"+s.name)
}

// refusals is how often somebody gave up before a logon succeeded.
func (s *system) refusals(ctx context.Context) int {
	GinkgoHelper()
	return strings.Count(s.log(ctx), "authenticating user "+s.user)
}

// transferred is what the SFTP server wrote.
func (s *system) transferred(ctx context.Context) string {
	GinkgoHelper()
	return s.shell(ctx, "cat /tmp/sftp.log")
}
