package v2beta2_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// refusal is an object that the API server does not accept, and a part of what it says.
type refusal struct {
	name    string
	object  client.Object
	message string
}

func expectRefusals(t *testing.T, refusals []refusal) {
	t.Helper()
	server := apiserver.Shared(t)
	for _, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			err := server.Client.Create(t.Context(), r.object, client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), r.message) {
				t.Errorf("got %v, want a refusal with %q", err, r.message)
			}
		})
	}
}

func expectAccepted(t *testing.T, objects map[string]client.Object) {
	t.Helper()
	server := apiserver.Shared(t)
	for name, object := range objects {
		if err := server.Client.Create(t.Context(), object, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var meta = metav1.ObjectMeta{Namespace: "default", Name: "refused"}

func endpoint(name string, spec v2beta2.ZosEndpointSpec) client.Object {
	return &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
}

func collection(spec v2beta2.OperatorCollectionSpec) client.Object {
	return &v2beta2.OperatorCollection{ObjectMeta: meta, Spec: spec}
}

func soc(runtime v2beta2.RuntimeSpec) client.Object {
	return &v2beta2.SubOperatorConfig{ObjectMeta: meta, Spec: v2beta2.SubOperatorConfigSpec{
		OperatorCollection: "oc", Mapping: []v2beta2.NamespaceMapping{{Namespace: "default"}}, Runtime: &runtime,
	}}
}

func TestSpecsThatCannotWorkAreRefused(t *testing.T) {
	interval := func(text string) client.Object {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v2beta2.GroupVersion.String(), "kind": "OperatorCollection",
			"metadata": map[string]any{"namespace": "default", "name": "refused"},
			"spec":     map[string]any{"collectionURL": "https://example.com/x.tar.gz", "skipSignatureVerification": true, "interval": text},
		}}
	}
	expectRefusals(t, []refusal{
		{"a remote endpoint without a host", endpoint("ep", v2beta2.ZosEndpointSpec{}), "a remote endpoint needs a host"},
		{"a remote endpoint with an empty host", endpoint("ep", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointRemote, Port: 22}), "a remote endpoint needs a host"},
		{"a host that is an option of ssh", endpoint("ep", v2beta2.ZosEndpointSpec{Host: "-oProxyCommand=id"}), "must be a host name or an IP address"},
		{"a port that is none", endpoint("ep", v2beta2.ZosEndpointSpec{Host: "h", Port: 70000}), "spec.port"},
		{"an unknown endpoint type", endpoint("ep", v2beta2.ZosEndpointSpec{Host: "h", EndpointType: "far"}), "spec.endpointType"},
		{"an endpoint named localhost", endpoint("localhost", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"},
		{"an endpoint named all", endpoint("all", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"},
		{"an endpoint named 127.0.0.1", endpoint("127.0.0.1", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"},
		{"an endpoint whose name is too long for the key of a Secret", endpoint(strings.Repeat("a", 242), v2beta2.ZosEndpointSpec{Host: "h"}), "at most 241"},
		{"an endpoint named ungrouped", endpoint("ungrouped", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"},
		{"a digest that is too short", collection(v2beta2.OperatorCollectionSpec{Digest: "sha256:abc"}), "64 lower-case hexadecimal digits"},
		{"a digest in capitals", collection(v2beta2.OperatorCollectionSpec{Digest: "sha256:" + strings.Repeat("A", 64)}), "64 lower-case hexadecimal digits"},
		{"a digest of another kind", collection(v2beta2.OperatorCollectionSpec{Digest: "md5:" + strings.Repeat("a", 64)}), "64 lower-case hexadecimal digits"},
		{"a URL that is no web address", collection(v2beta2.OperatorCollectionSpec{CollectionURL: "ftp://x/y"}), "must start with https:// or http://"},
		{"a URL to a file", collection(v2beta2.OperatorCollectionSpec{CollectionURL: "file:///etc/passwd"}), "must start with https:// or http://"},
		{"an unknown deletion policy", collection(v2beta2.OperatorCollectionSpec{DeletionPolicy: "Maybe"}), "spec.deletionPolicy"},
		{"a SubOperatorConfig of no collection", &v2beta2.SubOperatorConfig{ObjectMeta: meta}, "spec.operatorCollection"},
		{"an interval of less than a minute", interval("59s"), "spec.interval"},
		{"an interval of zero", interval("0s"), "spec.interval"},
		{"a negative interval", interval("-1h"), "spec.interval"},
		{"an interval that is no duration", interval("daily"), "spec.interval"},
		{"an interval that is too long", interval(strings.Repeat("9", 400) + "h"), "spec.interval"},
	})
	expectAccepted(t, map[string]client.Object{
		"a local endpoint without a host": endpoint("pod", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal}),
	})
}

func TestRuntimesThatCannotWorkAreRefused(t *testing.T) {
	volume := func(v v2beta2.RuntimeVolume) client.Object {
		return soc(v2beta2.RuntimeSpec{Volumes: []v2beta2.RuntimeVolume{v}})
	}
	mount := func(path, subPath string) client.Object {
		return soc(v2beta2.RuntimeSpec{VolumeMounts: []v2beta2.RuntimeVolumeMount{{Name: "a", MountPath: path, SubPath: subPath}}})
	}
	claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}
	optional := &corev1.SecretVolumeSource{SecretName: "secret", Optional: new(true)}
	expectRefusals(t, []refusal{
		{"a volume without a source", volume(v2beta2.RuntimeVolume{Name: "a"}), "such as hostPath, are not supported"},
		{"a volume with two sources", volume(v2beta2.RuntimeVolume{Name: "a", PersistentVolumeClaim: claim, EmptyDir: &corev1.EmptyDirVolumeSource{}}), "exactly one of"},
		{"a volume of the operator", volume(v2beta2.RuntimeVolume{Name: "endpoints", PersistentVolumeClaim: claim}), "choose another name"},
		{"an optional Secret", volume(v2beta2.RuntimeVolume{Name: "a", Secret: optional}), "cannot be optional"},
		{"a Secret without a name", volume(v2beta2.RuntimeVolume{Name: "a", Secret: &corev1.SecretVolumeSource{}}), "needs the secretName"},
		{"a ConfigMap without a name", volume(v2beta2.RuntimeVolume{Name: "a", ConfigMap: &corev1.ConfigMapVolumeSource{}}), "needs the name"},
		{"a mount over the engine", mount("/opt/ansible/engine", ""), "would hide a directory"},
		{"a mount over a parent of the engine", mount("/opt", ""), "would hide a directory"},
		{"a mount over the settings", mount("/etc", ""), "would hide a directory"},
		{"a mount over the token", mount("/var/run/secrets/kubernetes.io/serviceaccount", ""), "would hide a directory"},
		{"a mount over programs", mount("/usr/local/bin", ""), "would hide a directory"},
		{"a mount at a path with ..", mount("/mnt/../usr", ""), "spec.runtime.volumeMounts"},
		{"a subPath with ..", mount("/mnt", "a/../../b"), "must not contain '..'"},
		{"a source of variables without an object", soc(v2beta2.RuntimeSpec{EnvFrom: []v2beta2.RuntimeEnvSource{{Prefix: "A_"}}}), "exactly one of configMapRef and secretRef"},
		{"a prefix that is none", soc(v2beta2.RuntimeSpec{EnvFrom: []v2beta2.RuntimeEnvSource{{Prefix: "A=", SecretRef: &v2beta2.RuntimeObject{Name: "a"}}}}), "spec.runtime.envFrom[0].prefix"},
		{"an annotation of the pod that another namespace would be watched with", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"olm.targetNamespaces": "kube-system"}}), "cannot be set for the pod"},
		{"an annotation of the pod that is the manager's", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"zoscb.ibm.com/runtime-hash": "x"}}), "cannot be set for the pod"},
		{"a profile of the kernel", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"container.apparmor.security.beta.kubernetes.io/operator": "unconfined"}}), "cannot be set for the pod"},
		{"a volume of Istio's sidecar", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"sidecar.istio.io/userVolume": "[]"}}), "cannot be set for the pod"},
		{"a setting of CRI-O", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"io.kubernetes.cri-o.Devices": "/dev/sda"}}), "cannot be set for the pod"},
		{"a setting of Kata Containers", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"io.katacontainers.config.hypervisor.path": "/x"}}), "cannot be set for the pod"},
		{"a setting of the container runtime", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"run.oci.hooks.stdout": "/x"}}), "cannot be set for the pod"},
		{"another network", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "x"}}), "cannot be set for the pod"},
		{"an address of the network plugin", soc(v2beta2.RuntimeSpec{PodAnnotations: map[string]string{"cni.projectcalico.org/ipAddrs": "x"}}), "cannot be set for the pod"},
		{"the label that injects a sidecar", soc(v2beta2.RuntimeSpec{PodLabels: map[string]string{"sidecar.istio.io/inject": "true"}}), "Istio, cannot be set for the pod"},
		{"the label of an operator", soc(v2beta2.RuntimeSpec{PodLabels: map[string]string{"operator-name": "x"}}), "by which operators are found"},
		{"the label of the manager", soc(v2beta2.RuntimeSpec{PodLabels: map[string]string{"app.kubernetes.io/name": "collection-operator"}}), "by which operators are found"},
		{"an annotation that makes the account a client of OpenShift's login", soc(v2beta2.RuntimeSpec{ServiceAccountAnnotations: map[string]string{"serviceaccounts.openshift.io/oauth-redirecturi.x": "https://evil"}}), "cannot be set for the ServiceAccount"},
		{"a priority of the system", soc(v2beta2.RuntimeSpec{PriorityClassName: "system-node-critical"}), "reserved for components of the cluster"},
	})
}

func TestNetworkPoliciesThatCannotWorkAreRefused(t *testing.T) {
	apiServer := []v2beta2.EgressDestination{{CIDR: "192.0.2.1/32", Ports: []int32{6443}}}
	to := func(cidr string, ports ...int32) v2beta2.NetworkPolicySpec {
		return v2beta2.NetworkPolicySpec{Egress: v2beta2.EgressRestricted, AllowTo: []v2beta2.EgressDestination{{CIDR: cidr, Ports: ports}}}
	}
	var refusals []refusal
	for _, r := range []struct {
		name    string
		policy  v2beta2.NetworkPolicySpec
		message string
	}{
		{"without the API server", v2beta2.NetworkPolicySpec{Egress: v2beta2.EgressRestricted}, "the API server"},
		{"with a list that limits nothing", v2beta2.NetworkPolicySpec{AllowTo: apiServer}, "without egress Restricted"},
		{"an unknown word", v2beta2.NetworkPolicySpec{Egress: "Some", AllowTo: apiServer}, "networkPolicy.egress"},
		{"a host name", to("lpar1.example"), "must be a network such as"},
		{"an address without a prefix", to("192.0.2.1"), "must be a network such as"},
		{"a network that could be meant otherwise", to("192.0.2.1/24"), "must be a network such as"},
		{"an address with leading zeros", to("010.0.0.1/32"), "must be a network such as"},
		{"nothing", to(""), "networkPolicy.allowTo[0].cidr"},
		{"a port that is none", to("192.0.2.1/32", 70000), "networkPolicy.allowTo[0].ports[0]"},
	} {
		runtime := v2beta2.RuntimeSpec{NetworkPolicy: &r.policy}
		refusals = append(refusals, refusal{r.name, soc(runtime), r.message},
			refusal{r.name + " for all", collection(v2beta2.OperatorCollectionSpec{Runtime: &runtime}), r.message})
	}
	expectRefusals(t, refusals)
	accepted := map[string]client.Object{}
	for name, policy := range map[string]v2beta2.NetworkPolicySpec{
		"a network":         to("10.0.0.0/8", 443),
		"one address":       to("192.0.2.1/32"),
		"a network of IPv6": to("2001:db8::/64", 22, 6443),
		"ports alone":       to("0.0.0.0/0", 443),
	} {
		accepted[name] = collection(v2beta2.OperatorCollectionSpec{Runtime: &v2beta2.RuntimeSpec{NetworkPolicy: &policy}})
	}
	expectAccepted(t, accepted)
}
