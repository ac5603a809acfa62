package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/opencontainers/go-digest"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/hostile"
)

// seen is what an object's Ready says now, or the condition of the type given: the reason and the first lines of the
// message.
func seen(ctx context.Context, object client.Object, conditionType ...string) string {
	GinkgoHelper()
	c := Condition(ctx, object, append(conditionType, v2beta2.ConditionReady)[0])(Default)
	return c.Reason + ": " + firstOf(c.Message)
}

// firstOf is as much of a message as fits into the table.
func firstOf(message string) string {
	const most = 200
	if runes := []rune(message); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return message
}

func namesOf(objects []client.Object) []string {
	var names []string
	for _, object := range objects {
		names = append(names, object.GetName())
	}
	return names
}

// files are all below a folder.
func files(dir string) []string {
	GinkgoHelper()
	var found []string
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, path)
		}
		return err
	})).To(Succeed())
	return found
}

// peakMemory is the most memory that the manager has had in use since it started.
func (m *managerProcess) peakMemory() int64 {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.command.Process.Pid))
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(status)) {
		if peak, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(peak), " kB"), 10, 64)
			Expect(err).NotTo(HaveOccurred())
			return kilobytes << 10
		}
	}
	Fail("no VmHWM:\n" + string(status))
	return 0
}

var _ = Describe("Hostile archives", func() {
	// hostileMemory is what the manager may use at most while it refuses all of them.
	const hostileMemory = 512 << 20

	It("are refused each with its reason, within bounded memory, and leave nothing behind", Slow, attack.Label, func(ctx context.Context) {
		// The bombs have to get past the bound of a download in order to be opened.
		theManager.restart(ctx, "--allow-local-addresses", "--fetch-max-bytes=8388608", "--fetch-timeout=30s")
		namespace := newNamespace(ctx)
		crds, stored := listObjects(ctx, &apiextensionsv1.CustomResourceDefinitionList{}), files(theManager.storage)

		archives := slices.Concat(hostile.Archives(archive.DefaultLimits), hostile.Collections())
		collections := make([]*v2beta2.OperatorCollection, len(archives))
		for i, a := range archives {
			collections[i] = newCollection(namespace, fmt.Sprintf("hostile-%d", i), pinned(a.Content()))
			Create(ctx, collections[i])
		}
		// What is wrong is Archive.Reason or Archive.Rule.
		names, observed := map[string][]string{}, map[string]string{}
		for i, a := range archives {
			Eventually(ctx, Condition(ctx, collections[i], v2beta2.ConditionStalled)).WithTimeout(InstallTimeout).
				Should(And(ConditionTrue(), WithMessage(a.Message)), a.Name)
			wrong := string(a.Reason) + a.Rule
			names[wrong] = append(names[wrong], a.Name)
			if observed[wrong] == "" {
				observed[wrong] = seen(ctx, collections[i], v2beta2.ConditionStalled)
			}
			Get(ctx, Default, collections[i])
			Expect(collections[i].Status.Artifact).To(BeNil(), a.Name)
		}
		Expect(madeIn(ctx, namespace)).To(BeEmpty())
		// CRDs of earlier specs may still be on their way out.
		Expect(namesOf(listObjects(ctx, &apiextensionsv1.CustomResourceDefinitionList{}))).To(HaveEach(BeElementOf(namesOf(crds))))
		for _, file := range files(theManager.storage) {
			Expect(stored).To(ContainElement(file), "a file that a refused archive left")
		}

		By("serving others as before")
		importSample(ctx, namespace, newSample())
		peak := theManager.peakMemory()
		Expect(peak).To(BeNumerically("<", hostileMemory))

		for _, a := range archives {
			wrong := string(a.Reason) + a.Rule
			if those := names[wrong]; those != nil {
				delete(names, wrong)
				attack.Repelled("Hostile archives", fmt.Sprintf("import archives (%d): %s", len(those), strings.Join(those, ", ")),
					"each is refused and Stalled; no CRD, SubOperatorConfig or workload is made", observed[wrong])
			}
		}
		attack.Repelled("Hostile archives", fmt.Sprintf("exhaust the manager with all %d of them at once", len(archives)),
			fmt.Sprintf("less than %d MiB used, no file left, and a sound collection is imported after them", hostileMemory>>20),
			fmt.Sprintf("%d MiB used at most, no file left, imported", peak>>20))
	})
})

// renamed is the sample under another domain and name.
func (s *sample) renamed(domainTo, nameTo string) *sample {
	other := *s
	config := strings.NewReplacer("domain: "+domain+"\n", "domain: "+domainTo+"\n", "name: "+s.name+"\n", "name: "+nameTo+"\n")
	other.files = map[string]string{"operator-config.yml": config.Replace(s.operatorConfig())}
	return &other
}

var _ = Describe("Names that collide when they are joined", attack.Label, func() {
	It("keep two collections apart in one namespace and in two", func(ctx context.Context) {
		one, two, first, second := newNamespace(ctx), newNamespace(ctx), newSample(), newSample()
		// it-x + thing and it + x-thing: the operators of both are named it-x-thing-operator.
		operator := domain + "-x-" + first.name + "-operator"
		mine, theirs := first.renamed(domain+"-x", first.name), second.renamed(domain, "x-"+first.name)
		ocMine := newCollection(one, "mine", mine.pinned())
		Create(ctx, ocMine)
		Eventually(ctx, Gone(ctx, deployment(one, operator))).Should(BeFalse())
		makeAvailable(ctx, one, operator)
		ExpectReady(ctx, ocMine)
		before := versions(installed(ctx, defaultSOC(ocMine)))

		ocTheirs, elsewhere := newCollection(one, "theirs", theirs.pinned()), newCollection(two, "theirs", theirs.pinned())
		Create(ctx, ocTheirs, elsewhere)
		ExpectFailure(ctx, ocTheirs, v2beta2.ReasonForeignObject, `Deployment "`+one+"/"+operator+`"`, false)
		attack.Repelled("Tenancy", "import a collection whose domain and name read like another's when joined (a-b + c, a + b-c), in the same namespace",
			"the operator that is there is neither changed nor shared", seen(ctx, ocTheirs))

		makeAvailable(ctx, two, operator)
		ExpectReady(ctx, elsewhere)
		d := deployment(two, operator)
		Get(ctx, Default, d)
		Expect(d.Labels).To(And(HaveKeyWithValue("operator-domain", domain), HaveKeyWithValue("operator-name", "x-"+first.name)))
		Expect(versions(installed(ctx, defaultSOC(ocMine)))).To(Equal(before))
		attack.Repelled("Tenancy", "the same from another namespace", "each has its own operator, by the pair of domain and name",
			fmt.Sprintf("Deployment %s/%s of %s + %s, and %s/%s of %s + %s, unchanged", two, operator, d.Labels["operator-domain"], d.Labels["operator-name"],
				one, operator, domain+"-x", first.name))

		By("deleting those that came later")
		for _, oc := range []client.Object{ocTheirs, elsewhere} {
			Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
			Remove(ctx, oc)
		}
		for _, oc := range []client.Object{ocTheirs, elsewhere} {
			Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		}
		Expect(versions(installed(ctx, defaultSOC(ocMine)))).To(Equal(before))
		ExpectReady(ctx, ocMine)
		Get(ctx, Default, customResourceDefinition(first.crdName()))
		attack.Repelled("Tenancy", "delete a collection whose joined name is another's", "the other's objects and CRDs stay as they are",
			fmt.Sprintf("%d objects unchanged, %s", len(before), seen(ctx, ocMine)))
	})

	It("keep two API groups of their own apart", func(ctx context.Context) {
		first, second := newSample(), newSample()
		second.kind = first.kind
		// thing + x.it and thing.x + it: the group of both is thing.x.it.suboperator.zoscb.ibm.com.
		group := first.name + ".x." + domain + "." + SharedGroup
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}})
		namespace := newNamespace(ctx)
		oc := newCollection(namespace, "oc", first.renamed("x."+domain, first.name).pinned())
		rival := newCollection(namespace, "rival", second.renamed(domain, first.name+".x").pinned())
		oc.Spec.APIGroup, rival.Spec.APIGroup = v2beta2.APIGroupPerCollection, v2beta2.APIGroupPerCollection
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		crd := customResourceDefinition(first.plural() + "." + group)
		Get(ctx, Default, crd)
		version := crd.ResourceVersion
		Create(ctx, rival)
		ExpectFailure(ctx, rival, v2beta2.ReasonKindClash, crd.Name, false)
		Get(ctx, Default, crd)
		Expect(crd.ResourceVersion).To(Equal(version))
		attack.Repelled("Tenancy", "take another's kind in an API group that is the same when joined (c + b.a, c.b + a)", "the CRD is not touched", seen(ctx, rival))
	})
})

var _ = Describe("A tenant", attack.Label, func() {
	It("cannot reach another's objects by what it writes into its own", func(ctx context.Context) {
		victim, attacker, theirs, ours := newNamespace(ctx), newNamespace(ctx), newSample(), newSample()
		ocVictim, ocAttacker := installSample(ctx, victim, theirs), installSample(ctx, attacker, ours)
		before := versions(installed(ctx, defaultSOC(ocVictim)))
		inventory := defaultSOC(ocVictim).DeepCopy()
		Get(ctx, Default, inventory)
		treasure := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: victim, Name: "treasure",
			Labels: map[string]string{"operator-domain": domain, "operator-name": ours.name, "managed-by": "ibm-zos-cloud-broker"},
		}}
		Create(ctx, treasure)
		targets := append(slices.Clone(inventory.Status.Inventory),
			v2beta2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: victim, Name: treasure.Name},
			v2beta2.ObjectReference{APIVersion: "v1", Kind: "Namespace", Name: victim})

		By("creating a SubOperatorConfig with a status and labels of the other's collection, which maps its namespace")
		forged := newSOC(attacker, "forged", "oc", mapTo(victim)...)
		forged.Labels = map[string]string{"operator-domain": domain, "operator-name": theirs.name, "managed-by": "ibm-zos-cloud-broker"}
		forged.Status.Inventory = targets
		forged.Status.Installations = []v2beta2.InstallationStatus{{Namespace: victim, Digest: DigestOf(nil)}}
		Create(ctx, forged)
		ExpectFailure(ctx, forged, v2beta2.ReasonMappingNotAllowed, victim, false)
		Get(ctx, Default, forged)
		Expect(forged.Status.Inventory).To(BeEmpty())
		Expect(forged.Status.Installations).To(BeEmpty())
		ExpectReady(ctx, ocVictim)
		attack.Repelled("Tenancy", "create a SubOperatorConfig with the labels of another's collection and a status that lists another's objects",
			"status and labels are the manager's alone; nothing is installed or removed", seen(ctx, forged))

		By("writing the status of an own SubOperatorConfig")
		editor := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: "attacker"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"suboperatorconfigs"}, Verbs: []string{"*"}}},
		}
		Create(ctx, editor, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: attacker, Name: "attacker"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: editor.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "attacker"}},
		})
		Eventually(ctx, func() error {
			return as("attacker").Patch(ctx, forged.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"mine":"yes"}}}`)))
		}).Should(Succeed())
		document, err := json.Marshal(map[string]any{"status": map[string]any{"inventory": targets}})
		Expect(err).NotTo(HaveOccurred())
		status := client.RawPatch("application/merge-patch+json", document)
		refusal := as("attacker").Status().Patch(ctx, forged.DeepCopy(), status)
		Expect(refusal).To(MatchError(ContainSubstring("forbidden")))
		attack.Repelled("Tenancy", "write an inventory into the status of an own SubOperatorConfig", "the API server refuses it", refusal.Error())

		By("deleting one whose inventory was forged nevertheless")
		Expect(K8s.Status().Patch(ctx, forged, status)).To(Succeed())
		for _, soc := range []client.Object{forged, defaultSOC(ocAttacker)} {
			Remove(ctx, soc)
			Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
		}
		Expect(versions(installed(ctx, defaultSOC(ocVictim)))).To(Equal(before))
		ExpectReady(ctx, ocVictim)
		version := treasure.ResourceVersion
		Get(ctx, Default, treasure)
		Expect(treasure.ResourceVersion).To(Equal(version))
		Expect(treasure.DeletionTimestamp).To(BeNil())
		attack.Repelled("Tenancy", "delete a SubOperatorConfig whose inventory lists another's objects, one with the own collection's labels, and a namespace",
			"only what was made for it is removed", fmt.Sprintf("%d objects, ConfigMap %s/%s and Namespace %s unchanged", len(before), victim, treasure.Name, victim))

		By("deleting the collection")
		removeCollections(ctx, attacker)
		Expect(versions(installed(ctx, defaultSOC(ocVictim)))).To(Equal(before))
		Get(ctx, Default, treasure)
		Expect(treasure.ResourceVersion).To(Equal(version))
		ExpectReady(ctx, ocVictim)
		attack.Repelled("Tenancy", "delete a collection while another's object carries its labels", "the object stays",
			fmt.Sprintf("ConfigMap %s/%s at resourceVersion %s as before", victim, treasure.Name, treasure.ResourceVersion))
	})

	It("has no use of Secrets that are not meant for it", func(ctx context.Context) {
		namespace, other, s, server := newNamespace(ctx), newNamespace(ctx), newSample(), startSSHServer()
		foreign := SecretValue("key in another namespace")
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "theirs"}, Type: corev1.SecretTypeSSHAuth,
			StringData: map[string]string{"username": "THEIRS", "ssh-privatekey": foreign, "token": foreign},
		}, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mapped"}, Type: corev1.SecretTypeBasicAuth,
			StringData: map[string]string{"username": "APP", "password": SecretValue("password of an application")},
		})
		tries := []struct{ attack, credential, message string }{
			{"point an endpoint at a Secret of another namespace by its name", "theirs", "does not exist in namespace"},
			{"point an endpoint at a Secret of another namespace by a path", "../" + other + "/theirs", "does not exist in namespace"},
			{"point an endpoint at a Secret of another namespace by namespace/name", other + "/theirs", "does not exist in namespace"},
			{"point an endpoint at a Secret by an escaped path", "..%2F" + other + "%2Ftheirs", "does not exist in namespace"},
			{"point an endpoint at an application's Secret that is not marked as a credential", "mapped", "is not a credential"},
		}
		var mapping []v2beta2.EndpointMapping
		for i, try := range tries {
			byEndpoint, byMapping := newEndpoint(namespace, fmt.Sprintf("lpar%d", i), server), newEndpoint(namespace, fmt.Sprintf("mapped%d", i), server)
			byEndpoint.Spec.CredentialName = try.credential
			Create(ctx, byEndpoint, byMapping)
			mapping = append(mapping, v2beta2.EndpointMapping{Name: byEndpoint.Name}, v2beta2.EndpointMapping{Name: byMapping.Name, CredentialName: try.credential})
		}
		soc := newSOC(namespace, "soc", "oc", v2beta2.NamespaceMapping{Namespace: namespace, ZosEndpoints: &mapping})
		Create(ctx, soc)
		importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
		ExpectFailure(ctx, soc, v2beta2.ReasonCredentialInvalid, `"theirs"`, false)
		Get(ctx, Default, secret)
		for i, try := range tries {
			for _, endpoint := range []string{fmt.Sprintf("lpar%d", i), fmt.Sprintf("mapped%d", i)} {
				Expect(string(secret.Data[endpoint+"_refusal"])).To(And(HavePrefix("CredentialInvalid: "), ContainSubstring(try.message)), endpoint)
				Expect(secret.Data).NotTo(Or(HaveKey(endpoint+"_key"), HaveKey(endpoint+"_password")))
			}
			attack.Repelled("Tenancy", try.attack, "the credential reaches neither the pod nor a host; runs are refused", string(secret.Data[fmt.Sprintf("lpar%d_refusal", i)]))
		}

		By("downloading and verifying with them")
		sent := make(chan string, 100)
		url := web.Handle(func(w http.ResponseWriter, r *http.Request) {
			sent <- r.Header.Get("Authorization")
			_, _ = w.Write(newSample().archive())
		})
		for i, name := range []string{"theirs", "../" + other + "/theirs", other + "/theirs"} {
			download := newCollection(namespace, fmt.Sprintf("download%d", i), v2beta2.OperatorCollectionSpec{CollectionURL: url, CredentialsSecret: name, SkipSignatureVerification: true})
			verified := newCollection(namespace, fmt.Sprintf("verified%d", i), v2beta2.OperatorCollectionSpec{CollectionURL: url, SignatureSecret: name})
			Create(ctx, download, verified)
			ExpectFailure(ctx, download, v2beta2.ReasonCredentialsInvalid, "does not exist in namespace", false)
			ExpectFailure(ctx, verified, v2beta2.ReasonSignatureSecretInvalid, "does not exist in namespace", false)
			if i == 1 {
				attack.Repelled("Tenancy", "download with a Secret of another namespace", "nothing is sent", seen(ctx, download))
				attack.Repelled("Tenancy", "have an archive verified by a Secret of another namespace", "nothing is imported", seen(ctx, verified))
			}
		}
		Expect(sent).NotTo(Receive())
		expectSecrecy(ctx, namespace)
	})
})

// newECDSASigner is a host key of another type than those of newSigner.
func newECDSASigner() ssh.Signer {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	signer, err := ssh.NewSignerFromKey(key)
	Expect(err).NotTo(HaveOccurred())
	return signer
}

// startTarpit accepts connections until the spec ends, says what it is given, and then nothing. It counts those that
// are open.
func startTarpit(banner string) *sshServer {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = listener.Close() })
	address := listener.Addr().(*net.TCPAddr)
	s := &sshServer{host: address.IP.String(), port: int32(address.Port)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.open.Add(1)
			go func() {
				defer s.open.Add(-1)
				defer conn.Close()
				_, _ = conn.Write([]byte(banner))
				_, _ = io.Copy(io.Discard, conn) // Until the other side gives up.
			}()
		}
	}()
	return s
}

var _ = Describe("A host that is not the one meant", attack.Label, func() {
	It("gets no key pinned over the known one, whatever it shows", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logon"}, Type: corev1.SecretTypeSSHAuth,
			StringData: map[string]string{"username": "IBMUSER", "ssh-privatekey": SecretValue("key for a host")},
		})
		honest, rival, downgraded, named := startSSHServer(), startSSHServer(), startSSHServer(), startSSHServer()
		pinnedKey := downgraded.hostKey()
		endpoints := map[string]*v2beta2.ZosEndpoint{
			"honest": newEndpoint(namespace, "honest", honest), "rival": newEndpoint(namespace, "rival", rival),
			"downgraded": newEndpoint(namespace, "downgraded", downgraded), "named": newEndpoint(namespace, "named", named),
			"silent":   newEndpoint(namespace, "silent", startTarpit("")),
			"halfway":  newEndpoint(namespace, "halfway", startTarpit("SSH-2.0-OpenSSH_9.9\r\n")),
			"chatters": newEndpoint(namespace, "chatters", startTarpit(strings.Repeat("not yet\r\n", 1<<17))),
		}
		endpoints["rival"].Spec.HostKeys = []string{honest.hostKey()}
		endpoints["named"].Spec.HostKeys = []string{named.hostKey()}
		for _, endpoint := range endpoints {
			endpoint.Spec.CredentialName = "logon"
			Create(ctx, endpoint)
		}
		for _, name := range []string{"honest", "downgraded", "named"} {
			Eventually(ctx, Condition(ctx, endpoints[name], v2beta2.ConditionReachable)).Should(ConditionTrue(), name)
		}
		downgraded.replaceKey(newECDSASigner())
		named.replaceKey(newECDSASigner())
		importSample(ctx, namespace, s)

		for _, row := range []struct{ name, reason, attack, expected string }{
			{"rival", v2beta2.ReasonHostKeyMismatch, "answer with the key of another host than the one in spec.hostKeys", "the key is refused, and none is pinned"},
			{"downgraded", v2beta2.ReasonHostKeyMismatch, "offer only another type of key than the pinned one", "no other type is accepted, and the pin stays"},
			{"named", v2beta2.ReasonHostKeyMismatch, "offer only another type of key than the one in spec.hostKeys", "no other type is accepted"},
			{"silent", v2beta2.ReasonHostUnreachable, "accept connections and never say a word", "the probe ends by itself, and others are probed meanwhile"},
			{"halfway", v2beta2.ReasonHostUnreachable, "begin the handshake and never finish it", "the probe ends by itself, and others are probed meanwhile"},
			{"chatters", v2beta2.ReasonHostUnreachable, "send a megabyte before the handshake", "the probe gives up"},
		} {
			Eventually(ctx, Condition(ctx, endpoints[row.name], v2beta2.ConditionReachable)).
				Should(And(ConditionFalse(), WithReason(row.reason)), row.name)
			attack.Repelled("Secrets and hosts", row.attack, row.expected, seen(ctx, endpoints[row.name], v2beta2.ConditionReachable))
		}
		for name, known := range map[string][]string{"downgraded": {pinnedKey}, "rival": nil, "named": nil, "silent": nil, "halfway": nil, "chatters": nil} {
			Get(ctx, Default, endpoints[name])
			Expect(endpoints[name].Status.HostKeys).To(Equal(known), name)
		}

		By("having its logon refused before a connection is tried, or checked against the known key")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, secret)
			for _, name := range []string{"silent", "halfway", "chatters"} {
				g.Expect(string(secret.Data[name+"_refusal"])).To(HavePrefix("HostKeyUnknown: "))
				g.Expect(secret.Data).NotTo(HaveKey(name + "_key"))
			}
			g.Expect(string(secret.Data["downgraded_known_hosts"])).To(HaveSuffix(" " + pinnedKey + "\n"))
			g.Expect(string(secret.Data["rival_known_hosts"])).To(HaveSuffix(" " + honest.hostKey() + "\n"))
		}).Should(Succeed())
		attack.Repelled("Secrets and hosts", "get a logon although no host key is known", "the credential is not given to the pod, and runs are refused",
			string(secret.Data["silent_refusal"]))
		for _, server := range []*sshServer{honest, rival, downgraded, named} {
			Expect(server.logons.Load()).To(BeZero())
		}
	})

	It("cannot get in by host keys that are none, or more than one", func(ctx context.Context) {
		namespace, server, other := newNamespace(ctx), startSSHServer(), publicKey(newSigner())
		for i, row := range []struct{ attack, key string }{
			{"pin an empty host key", ""},
			{"pin a host key without the key", "ssh-ed25519"},
			{"pin a host key with a second line for all hosts", server.hostKey() + "\n* " + other},
			{"pin an authority that may speak for all hosts", "@cert-authority * " + other},
			{"pin a host key with options", `command="id" ` + other},
		} {
			endpoint := newEndpoint(namespace, fmt.Sprintf("lpar%d", i), server)
			endpoint.Spec.HostKeys = []string{row.key}
			Create(ctx, endpoint)
			ExpectFailure(ctx, endpoint, v2beta2.ReasonInvalidHostKeys, "spec.hostKeys[0]", true)
			Expect(Condition(ctx, endpoint, v2beta2.ConditionReachable)(Default)).To(ConditionAbsent())
			attack.Repelled("Secrets and hosts", row.attack, "the endpoint is Stalled, and nothing is pinned instead", seen(ctx, endpoint))
		}
	})
})

var _ = Describe("Text that is meant to become code", attack.Label, func() {
	It("is refused in an operator-config, or stays text", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		const injection = "Template injection"
		config := func(old, by string) func(*sample) {
			return func(s *sample) {
				changed := strings.Replace(s.operatorConfig(), old, by, 1)
				Expect(changed).NotTo(Equal(s.operatorConfig()))
				s.files = map[string]string{
					"operator-config.yml": changed, "run$HOME.yml": "- {hosts: all, tasks: []}\n", "{{ x }}.yml": "- {hosts: all, tasks: []}\n",
				}
			}
		}
		variable := func(name string) func(*sample) {
			return func(s *sample) { s.variables = "{name: " + name + ", displayName: X, type: string}" }
		}
		for i, row := range []struct {
			attack, message string
			change          func(*sample)
		}{
			{"let a resource set ansible_connection", "reserved", variable("ansible_connection")},
			{"let a resource set ansible_host", "reserved", variable("ansible_host")},
			{"let a resource set ansible_ssh_common_args", "reserved", variable("ansible_ssh_common_args")},
			{"let a resource choose the playbook", "reserved", variable("zoscb_playbook")},
			{"let a resource say what event it is", "reserved", variable("k8s_cr_event")},
			{"declare the endpoint as a variable of its own", "reserved", variable("zosendpoint")},
			{"let a resource replace the whole of itself, whose text is not marked unsafe", "reserved", variable("_suboperator_zoscb_ibm_com_thing")},
			{"name a variable with a template", "not an Ansible variable name", variable(`"{{ lookup('pipe', 'id') }}"`)},
			{"name a variable with a line break", "not an Ansible variable name", variable(`"a\n  ansible_connection: local"`)},
			{"name a variable with a path", "not an Ansible variable name", variable(`"a.b[0]"`)},
			{"put a template into a playbook's path", "braces", config("playbook: play.yml", `playbook: "{{ x }}.yml"`)},
			{"put a template into a finalizer's path", "braces", config("finalizer: play.yml", `finalizer: "{{ x }}.yml"`)},
			{"lead a playbook's path out of the collection", "must not lead out", config("playbook: play.yml", "playbook: ../../engine/entry.yml")},
			{"put a template into inventoryName", "not an Ansible group name", config("displayName:", "inventoryName: \"{{ lookup('pipe', 'id') }}\"\ndisplayName:")},
			{"put an environment variable into inventoryName", "not an Ansible group name", config("displayName:", "inventoryName: $HOME\ndisplayName:")},
			{"join the group of all hosts by inventoryName", "Ansible makes itself", config("displayName:", "inventoryName: all\ndisplayName:")},
			{"put a template into a kind", "resources[0].kind", func(s *sample) { s.kind = `"{{ x }}"` }},
			{"put an environment variable into a kind", "resources[0].kind", func(s *sample) { s.kind = "$HOME" }},
		} {
			s := newSample()
			row.change(s)
			oc := newCollection(namespace, fmt.Sprintf("oc%d", i), s.pinned())
			Create(ctx, oc)
			ExpectFailure(ctx, oc, v2beta2.ReasonInvalidCollection, row.message, true)
			attack.Repelled(injection, row.attack, "the archive is refused", seen(ctx, oc))
		}
		Expect(madeIn(ctx, namespace)).To(BeEmpty())

		By("an environment variable of the pod in a playbook's path, which ansible-operator would replace")
		dollar := newSample()
		config("playbook: play.yml", "playbook: run$HOME.yml")(dollar)
		oc := newCollection(namespace, "dollar", dollar.pinned())
		Create(ctx, oc)
		soc := defaultSOC(oc)
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "dollar sign", true)
		Expect(madeIn(ctx, namespace)).To(ConsistOf("SubOperatorConfig/dollar-soc"))
		attack.Repelled(injection, "put an environment variable of the pod into a playbook's path", "nothing is installed", seen(ctx, soc))

		By("a template and an environment variable in texts that people read")
		s := newSample()
		const evil = "{{ lookup('pipe', 'id') }} $HOME"
		config("displayName: "+s.kind, fmt.Sprintf("displayName: %q\ndescription: %q", evil, evil))(s)
		Create(ctx, newCollection(namespace, "text", s.pinned()))
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		runtime := configMap(namespace, s.operator()+"-runtime")
		Get(ctx, Default, runtime)
		Expect(runtime.Data).To(HaveKey("watches.yaml"))
		for key, text := range runtime.Data {
			Expect(text).NotTo(Or(ContainSubstring("{{"), ContainSubstring("$HOME")), key)
		}
		Expect(strings.Count(runtime.Data["watches.yaml"], "markUnsafe: true")).To(Equal(1))
		attack.Repelled(injection, "put a template and an environment variable into displayName and description",
			"they do not reach the runtime's configuration", fmt.Sprintf("ConfigMap %s holds neither; its watch says markUnsafe: true", runtime.Name))

		By("a custom resource that sets what the kind does not have")
		thing := s.instance(namespace, "one")
		for name, value := range map[string]any{
			"ansible_connection": "local", "ansible_host": "attacker.example", "zoscb_playbook": "/tmp/x.yml", "k8s_cr_event": "delete", "size": int64(1),
		} {
			Expect(unstructured.SetNestedField(thing.Object, value, "spec", name)).To(Succeed())
		}
		Create(ctx, thing)
		Get(ctx, Default, thing)
		Expect(thing.Object["spec"]).To(Equal(map[string]any{"zosendpoint": "lpar1", "size": int64(1)}))
		attack.Repelled(injection, "create a custom resource with ansible_connection, ansible_host, zoscb_playbook and k8s_cr_event in its spec",
			"the API server drops what the kind does not have", fmt.Sprintf("spec is %v", thing.Object["spec"]))
		for _, target := range []string{"{{ lookup('pipe', 'id') }}", "all,localhost", "lpar1\nlocalhost", "../lpar1"} {
			thing := s.instance(namespace, "two")
			Expect(unstructured.SetNestedField(thing.Object, target, "spec", "zosendpoint")).To(Succeed())
			refusal := K8s.Create(ctx, thing)
			Expect(refusal).To(beRefused("spec.zosendpoint"))
			attack.Repelled(injection, fmt.Sprintf("run against zosendpoint %q", target), "the API server refuses it", firstOf(refusal.Error()))
		}
	})

	It("is refused in a ZosEndpoint's variables", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		for i, row := range []struct{ attack, variable, message string }{
			{"let an endpoint choose the playbook", `"zoscb_playbook: /tmp/x.yml"`, "the operator's own"},
			{"name an endpoint's variable with a template", `{"name":"{{ x }}","value":"y"}`, "not an Ansible variable name"},
			{"put a second variable on a new line", `"a: b\nzoscb_playbook: /tmp/x.yml"`, "must be one line"},
		} {
			endpoint := newEndpoint(namespace, fmt.Sprintf("lpar%d", i), startSSHServer())
			endpoint.Spec.Variables = Variables(row.variable)
			Create(ctx, endpoint)
			ExpectFailure(ctx, endpoint, v2beta2.ReasonInvalidVariables, row.message, true)
			attack.Repelled("Template injection", row.attack, "the endpoint is Stalled", seen(ctx, endpoint))
		}
	})
})

var _ = Describe("What listens to pods", attack.Label, func() {
	It("tells nothing to who does not know what to ask for", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importSample(ctx, namespace, s)
		Get(ctx, Default, oc)
		ask := func(method, path string) string {
			GinkgoHelper()
			// The path is sent as it is, with its dots and escapes.
			request, err := http.NewRequestWithContext(ctx, method, "http://"+theManager.artifactAddress, nil)
			Expect(err).NotTo(HaveOccurred())
			request.URL.Opaque = path
			response, err := http.DefaultTransport.RoundTrip(request)
			Expect(err).NotTo(HaveOccurred())
			Expect(response.Body.Close()).To(Succeed())
			return response.Status
		}
		known := store.URLPath(digest.Digest(oc.Status.Artifact.Digest))
		Expect(ask(http.MethodGet, known)).To(Equal("200 OK"))
		for _, row := range []struct{ attack, method, path, status string }{
			{"list all archives", http.MethodGet, "/artifacts/sha256/", "404 Not Found"},
			{"ask for an archive by a part of its digest", http.MethodGet, known[:len(known)-10] + ".tar.gz", "404 Not Found"},
			{"ask for an archive by its upload's path", http.MethodGet, "/suboperator/" + s.name + "/" + s.version + "/" + s.name + ".tar.gz", "404 Not Found"},
			{"read the manager's files through the artifact server", http.MethodGet, "/artifacts/sha256/../../../../../../etc/passwd", "404 Not Found"},
			{"read the manager's files by an escaped path", http.MethodGet, "/artifacts/sha256/..%2F..%2F..%2Fetc%2Fpasswd", "404 Not Found"},
			{"replace an archive", http.MethodPut, known, "405 Method Not Allowed"},
			{"delete an archive", http.MethodDelete, known, "405 Method Not Allowed"},
		} {
			status := ask(row.method, row.path)
			Expect(status).To(Equal(row.status), row.attack)
			attack.Repelled("Pods", row.attack, "the artifact server serves whole archives by digest and nothing else", status)
		}
		Expect(ask(http.MethodGet, known)).To(Equal("200 OK"))

		By("connecting to an operator's pods")
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}}
		operator := deployment(namespace, s.operator())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, policy)
			Get(ctx, g, operator)
		}).Should(Succeed())
		Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress))
		Expect(policy.Spec.Ingress).To(BeEmpty())
		selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
		Expect(err).NotTo(HaveOccurred())
		Expect(selector.Matches(labels.Set(operator.Spec.Template.Labels))).To(BeTrue())
		attack.Repelled("Pods", "connect to an operator's pod", "a NetworkPolicy selects the pod and allows nobody (enforced by the cluster's network)",
			fmt.Sprintf("NetworkPolicy %s selects %s and has %d rules for ingress", policy.Name, selector, len(policy.Spec.Ingress)))
	})
})
