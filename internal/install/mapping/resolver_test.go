package mapping_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

var things = model.ID{Domain: "acme", Name: "things"}

// rig is a Resolver of SubOperatorConfigs in the namespace home. Its reads call reading with what is read: kind and name.
type rig struct {
	*mapping.Resolver
	server  *apiserver.Server
	home    string
	reading func(what string) error
	reads   []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := apiserver.Shared(t)
	r := &rig{server: server, home: server.Namespace(t), reading: func(string) error { return nil }}
	reader := interceptor.NewClient(server.Client, interceptor.Funcs{Get: r.get, List: r.list})
	r.Resolver = &mapping.Resolver{Client: reader, Reader: reader, CredentialKey: []byte(strings.Repeat("k", 32))}
	return r
}

func (r *rig) get(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	kind, err := c.GroupVersionKindFor(object)
	r.reads = append(r.reads, kind.Kind+" "+key.Name)
	return cmp.Or(err, r.reading(kind.Kind+" "+key.Name), c.Get(ctx, key, object, options...))
}

// list is that of a cache that is never behind, with the index of the manager: the API server does not know it.
func (r *rig) list(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	kind, err := c.GroupVersionKindFor(list)
	if err := cmp.Or(err, r.reading(kind.Kind)); err != nil {
		return err
	}
	socs, ok := list.(*v2beta2.SubOperatorConfigList)
	if !ok {
		return c.List(ctx, list, options...)
	}
	asked := (&client.ListOptions{}).ApplyOptions(options)
	namespace, _ := asked.FieldSelector.RequiresExactMatch(mapping.IndexNamespace)
	err = c.List(ctx, socs)
	socs.Items = slices.DeleteFunc(socs.Items, func(soc v2beta2.SubOperatorConfig) bool {
		return !mapping.Maps(&soc, namespace) && !mapping.InstalledIn(&soc, namespace)
	})
	return err
}

func (r *rig) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		apiserver.Must(t, r.server.Client.Create(t.Context(), object))
	}
}

// config makes a SubOperatorConfig that maps namespaces.
func (r *rig) config(t *testing.T, in, name string, namespaces ...string) *v2beta2.SubOperatorConfig {
	t.Helper()
	soc := &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Finalizers: []string{"example.com/test"}},
		Spec:       v2beta2.SubOperatorConfigSpec{OperatorCollection: "things", Mapping: mappings(namespaces...)},
	}
	r.create(t, soc)
	return soc
}

func mappings(namespaces ...string) []v2beta2.NamespaceMapping {
	var all []v2beta2.NamespaceMapping
	for _, namespace := range namespaces {
		all = append(all, v2beta2.NamespaceMapping{Namespace: namespace})
	}
	return all
}

// is writes to status which collection a SubOperatorConfig has, and where it has installed it.
func (r *rig) is(t *testing.T, soc *v2beta2.SubOperatorConfig, id model.ID, installed ...string) {
	t.Helper()
	soc.Status.Collection = &v2beta2.CollectionReference{Domain: id.Domain, Name: id.Name}
	soc.Status.Installations = nil
	for _, namespace := range installed {
		soc.Status.Installations = append(soc.Status.Installations, v2beta2.InstallationStatus{Namespace: namespace})
	}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), soc))
}

// allow makes a namespace consent to be mapped from others.
func (r *rig) allow(t *testing.T, namespace, from string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, mapping.AnnotationAllow, from))
	apiserver.Must(t, r.server.Client.Patch(t.Context(), object, patch))
}

func namespacesOf(mappings []v2beta2.NamespaceMapping) []string {
	var names []string
	for _, m := range mappings {
		names = append(names, m.Namespace)
	}
	return names
}

// expectProblem fails unless the only problem has a reason and contains a text.
func expectProblem(t *testing.T, problems []error, reason, text string) {
	t.Helper()
	if len(problems) != 1 || status.AsError(problems[0]) == nil || status.AsError(problems[0]).Reason != reason || !strings.Contains(problems[0].Error(), text) {
		t.Errorf("got %v, want %s: %s", problems, reason, text)
	}
}

var errAway = errors.New("the API server is away")

func TestConsent(t *testing.T) {
	r := newRig(t)
	for name, test := range map[string]struct {
		annotation string
		want       bool
	}{
		"none":                  {"", false},
		"this one":              {r.home, true},
		"a list":                {"other, " + r.home + " ,third", true},
		"another one":           {"other", false},
		"one that begins so":    {r.home + "0", false},
		"a wildcard is no name": {"*", false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := r.server.Namespace(t)
			r.allow(t, namespace, test.annotation)
			soc := r.config(t, r.home, namespace, r.home, namespace)
			agreed, problems, err := r.Namespaces(t.Context(), soc)
			apiserver.Must(t, err)
			if want := []string{r.home, namespace}; test.want && (!slices.Equal(namespacesOf(agreed), want) || len(problems) > 0) {
				t.Errorf("got %v, %v", namespacesOf(agreed), problems)
			}
			if !test.want {
				expectProblem(t, problems, v2beta2.ReasonMappingNotAllowed, `namespace "`+namespace+`" does not allow it: an owner of that namespace can add the annotation zoscb.ibm.com/allow-mapping-from: `+r.home)
				if !slices.Equal(namespacesOf(agreed), []string{r.home}) {
					t.Errorf("got %v", namespacesOf(agreed))
				}
			}
		})
	}
}

func TestNamespacesThatCannotBeUsed(t *testing.T) {
	r := newRig(t)
	other, ending := r.server.Namespace(t), r.server.Namespace(t)
	r.allow(t, other, r.home)
	r.allow(t, ending, r.home)
	apiserver.Must(t, r.server.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ending}}))
	for name, test := range map[string]struct {
		namespace, reason, text string
		selection               mapping.Selection
	}{
		"one that does not exist":      {other + "-absent", v2beta2.ReasonMappingNotAllowed, "does not exist", nil},
		"one that is being deleted":    {ending, v2beta2.ReasonMappingNotAllowed, "is being deleted", nil},
		"one that may not be used":     {other, v2beta2.ReasonNamespaceNotSelected, "does not use", mapping.Selection{r.home}},
		"even if it is the own, again": {r.home, v2beta2.ReasonNamespaceNotSelected, "does not use", mapping.Selection{other}},
	} {
		t.Run(name, func(t *testing.T) {
			r.Selection = test.selection
			agreed, problems, err := r.Namespaces(t.Context(), &v2beta2.SubOperatorConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: r.home}, Spec: v2beta2.SubOperatorConfigSpec{Mapping: mappings(test.namespace)},
			})
			if expectProblem(t, problems, test.reason, test.text); len(agreed) > 0 || err != nil {
				t.Errorf("got %v, %v", agreed, err)
			}
		})
	}
	r.Selection = nil
	for name, failure := range map[string]error{
		"403": apierrors.NewForbidden(schema.GroupResource{Resource: "namespaces"}, other, errAway), "timeout": context.DeadlineExceeded, "500": apierrors.NewInternalError(errAway),
	} {
		r.reading = func(what string) error {
			if what == "Namespace "+other {
				return failure
			}
			return nil
		}
		agreed, problems, err := r.Namespaces(t.Context(), r.config(t, r.home, strings.ToLower(name), r.home, other))
		if !errors.Is(err, failure) || status.Is(err) || agreed != nil || problems != nil {
			t.Errorf("%s: what is not known is neither agreed nor refused: %v, %v, %v", name, agreed, problems, err)
		}
	}
}

// rival makes a SubOperatorConfig in another namespace, and then one of the rig's. What is made in one second is ordered by UID.
func (r *rig) rival(t *testing.T, namespace string) (other, soc *v2beta2.SubOperatorConfig) {
	t.Helper()
	there := r.server.Namespace(t)
	r.allow(t, namespace, r.home+","+there)
	other = r.config(t, there, "other", namespace)
	for number := 0; ; number++ {
		soc = r.config(t, r.home, fmt.Sprintf("%s-%d", namespace, number), namespace)
		if mapping.Older(other, soc) {
			return other, soc
		}
		soc.Finalizers = nil
		apiserver.Must(t, r.server.Client.Update(t.Context(), soc))
		apiserver.Must(t, r.server.Client.Delete(t.Context(), soc))
	}
}

func (r *rig) conflict(t *testing.T, soc *v2beta2.SubOperatorConfig) (free []string, problems []error) {
	t.Helper()
	mappings, problems, err := r.WithoutConflicts(t.Context(), soc, things, soc.Spec.Mapping)
	apiserver.Must(t, err)
	return namespacesOf(mappings), problems
}

func TestSecondSubOperatorConfigIsRefused(t *testing.T) {
	r := newRig(t)
	for name, test := range map[string]struct {
		// change makes the circumstances.
		change func(t *testing.T, namespace string, other, soc *v2beta2.SubOperatorConfig)
		// refused says whether the newer one is, and otherRefused whether the older one is.
		refused, otherRefused bool
	}{
		"the older one has precedence": {func(*testing.T, string, *v2beta2.SubOperatorConfig, *v2beta2.SubOperatorConfig) {}, true, false},
		"unless the newer one is there already": {func(t *testing.T, namespace string, _, soc *v2beta2.SubOperatorConfig) {
			r.is(t, soc, things, namespace)
		}, true, true},
		"which it keeps from coming back once it has uninstalled": {func(t *testing.T, namespace string, other, _ *v2beta2.SubOperatorConfig) {
			r.is(t, other, things, namespace)
		}, true, false},
		"another collection is no rival": {func(t *testing.T, _ string, other, _ *v2beta2.SubOperatorConfig) {
			r.is(t, other, model.ID{Domain: "acme", Name: "others"})
		}, false, false},
		"nor one whose namespace has no consent": {func(t *testing.T, namespace string, _, _ *v2beta2.SubOperatorConfig) {
			r.allow(t, namespace, r.home)
		}, false, false},
		"nor one that is being deleted": {func(t *testing.T, _ string, other, _ *v2beta2.SubOperatorConfig) {
			apiserver.Must(t, r.server.Client.Delete(t.Context(), other))
		}, false, false},
		"unless its operator is still there": {func(t *testing.T, namespace string, other, _ *v2beta2.SubOperatorConfig) {
			r.is(t, other, things, namespace)
			apiserver.Must(t, r.server.Client.Delete(t.Context(), other))
		}, true, false},
		"also if it does not map the namespace any more": {func(t *testing.T, namespace string, other, _ *v2beta2.SubOperatorConfig) {
			other.Spec.Mapping = nil
			apiserver.Must(t, r.server.Client.Update(t.Context(), other))
			r.is(t, other, things, namespace)
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := r.server.Namespace(t)
			other, soc := r.rival(t, namespace)
			r.is(t, other, things)
			r.is(t, soc, things)
			test.change(t, namespace, other, soc)
			free, problems := r.conflict(t, soc)
			if test.refused {
				expectProblem(t, problems, v2beta2.ReasonMappingConflict,
					fmt.Sprintf("namespace %q already has this collection's operator, from SubOperatorConfig %q in namespace %q", namespace, "other", other.Namespace))
			}
			if refused := len(problems) > 0; refused != test.refused || len(free)+len(problems) != 1 {
				t.Errorf("got %v, %v", free, problems)
			}
			if len(other.Spec.Mapping) == 0 || other.DeletionTimestamp != nil {
				return
			}
			if _, problems := r.conflict(t, other); test.otherRefused != (len(problems) > 0) {
				t.Errorf("the older one: %v", problems)
			}
		})
	}
}

// Which collection another one has is not known until its OperatorCollection is imported.
func TestCollectionOfARival(t *testing.T) {
	r := newRig(t)
	namespace := r.server.Namespace(t)
	other, soc := r.rival(t, namespace)
	r.is(t, soc, things)
	if free, problems := r.conflict(t, soc); len(free) != 1 {
		t.Errorf("without an OperatorCollection: %v", problems)
	}
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: other.Namespace, Name: "things"}}
	r.create(t, oc)
	if free, problems := r.conflict(t, soc); len(free) != 1 {
		t.Errorf("before it is imported: %v", problems)
	}
	oc.Status.Collection = &v2beta2.ImportedCollection{Domain: things.Domain, Name: things.Name, Kinds: []string{}}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), oc))
	if _, problems := r.conflict(t, soc); len(problems) != 1 {
		t.Error("once it is imported, it is no rival")
	}
	for _, what := range []string{"SubOperatorConfigList", "OperatorCollection things", "Namespace " + namespace} {
		r.reading = func(is string) error {
			if is == what {
				return errAway
			}
			return nil
		}
		if _, _, err := r.WithoutConflicts(t.Context(), soc, things, soc.Spec.Mapping); !errors.Is(err, errAway) || status.Is(err) {
			t.Errorf("%s cannot be read: %v", what, err)
		}
	}
}

// An operator that was restored from a backup together with its SubOperatorConfigs stays with its owner, whichever is older.
func TestRestoredOwnerHasPrecedence(t *testing.T) {
	r := newRig(t)
	namespace := r.server.Namespace(t)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: things.OperatorName()}}
	r.create(t, account)
	other, soc := r.rival(t, namespace)
	r.is(t, other, things)
	r.is(t, soc, things)
	account.Annotations = map[string]string{render.AnnotationOwner: soc.Namespace + "/" + soc.Name}
	apiserver.Must(t, r.server.Client.Update(t.Context(), account))
	if free, problems := r.conflict(t, soc); len(free) != 1 {
		t.Errorf("the owner is refused: %v", problems)
	}
	if _, problems := r.conflict(t, other); len(problems) != 1 {
		t.Error("the older one is not refused")
	}
	r.is(t, other, things, namespace)
	if _, problems := r.conflict(t, soc); len(problems) != 1 {
		t.Error("the other one has installed it meanwhile")
	}
	r.reading = func(what string) error {
		if what == "ServiceAccount "+account.Name {
			return errAway
		}
		return nil
	}
	if _, _, err := r.WithoutConflicts(t.Context(), soc, things, soc.Spec.Mapping); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}

func TestEndpointsOfANamespace(t *testing.T) {
	r := newRig(t)
	secret := func(name string, change func(*corev1.Secret)) {
		made := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name}, Type: corev1.SecretTypeSSHAuth,
			Data: map[string][]byte{corev1.SSHAuthPrivateKey: []byte("key of " + name), "username": []byte("IBMUSER")},
		}
		change(made)
		r.create(t, made)
	}
	secret("good", func(*corev1.Secret) {})
	secret("second", func(*corev1.Secret) {})
	secret("unlabelled", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	endpoint := func(name, credential string, change func(*v2beta2.ZosEndpoint)) {
		made := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name}, Spec: v2beta2.ZosEndpointSpec{
			EndpointType: v2beta2.EndpointRemote, Host: "lpar.example.com", HostKeys: []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH9hbmQgdGhlIHJlc3QgaXMgc2lsZW5jZSBoZXJlLi4u"}, CredentialName: credential,
		}}
		change(made)
		r.create(t, made)
	}
	endpoint("a", "good", func(*v2beta2.ZosEndpoint) {})
	endpoint("b", "good", func(*v2beta2.ZosEndpoint) {})
	endpoint("absent", "absent", func(*v2beta2.ZosEndpoint) {})
	endpoint("local", "", func(e *v2beta2.ZosEndpoint) { e.Spec = v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal} })
	endpoint("none", "", func(*v2beta2.ZosEndpoint) {})
	endpoint("unknown", "good", func(e *v2beta2.ZosEndpoint) { e.Spec.HostKeys = nil })
	endpoint("unlabelled", "unlabelled", func(*v2beta2.ZosEndpoint) {})
	soc := r.config(t, r.home, "soc", r.home)

	all, problems, err := r.Endpoints(t.Context(), soc, soc.Spec.Mapping[0])
	apiserver.Must(t, err)
	refusals := map[string]string{"absent": "CredentialInvalid: ", "none": "CredentialMissing: ", "unknown": "HostKeyUnknown: ", "unlabelled": "CredentialInvalid: "}
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
		if want := refusals[e.Name]; !strings.HasPrefix(e.Refusal, want) || want == "" && e.Refusal != "" {
			t.Errorf("%s is refused: %q, want %q", e.Name, e.Refusal, want)
		}
		if isUsable := refusals[e.Name] == "" && !e.Local; isUsable && (e.User != "IBMUSER" || string(e.PrivateKey) != "key of good" || e.CredentialID == "") {
			t.Errorf("got %+v", e)
		}
		if strings.HasPrefix(e.Refusal, "CredentialInvalid") && len(e.PrivateKey) > 0 {
			t.Errorf("%s has a key that may not be used", e.Name)
		}
	}
	if want := []string{"a", "absent", "b", "local", "none", "unknown", "unlabelled"}; !slices.Equal(names, want) || len(problems) != 2 {
		t.Errorf("got %v, and %v", names, problems)
	}
	if read := slices.DeleteFunc(r.reads, func(what string) bool { return what != "Secret good" }); len(read) != 1 {
		t.Errorf("a credential was read %d times", len(read))
	}

	for name, test := range map[string]struct {
		mapped  []v2beta2.EndpointMapping
		want    string
		problem string
	}{
		"none":                 {[]v2beta2.EndpointMapping{}, "", ""},
		"one":                  {[]v2beta2.EndpointMapping{{Name: "b"}}, "b:key of good", ""},
		"one with another key": {[]v2beta2.EndpointMapping{{Name: "a", CredentialName: "second"}}, "a:key of second", ""},
		"one that is missing":  {[]v2beta2.EndpointMapping{{Name: "a"}, {Name: "x"}}, "a:key of good", v2beta2.ReasonEndpointNotFound},
	} {
		found, problems, err := r.Endpoints(t.Context(), soc, v2beta2.NamespaceMapping{Namespace: r.home, ZosEndpoints: &test.mapped})
		apiserver.Must(t, err)
		var got []string
		for _, e := range found {
			got = append(got, e.Name+":"+string(e.PrivateKey))
		}
		if strings.Join(got, ",") != test.want || (test.problem != "") != (len(problems) > 0) {
			t.Errorf("%s: got %v, %v", name, got, problems)
		}
		if test.problem != "" {
			expectProblem(t, problems, test.problem, `"x" does not exist`)
		}
	}

	soc.Spec.CredentialType = v2beta2.CredentialPersonal
	personal, problems, err := r.Endpoints(t.Context(), soc, soc.Spec.Mapping[0])
	apiserver.Must(t, err)
	for _, e := range personal {
		if len(e.PrivateKey) > 0 || !e.Local && len(e.PersonalKey) == 0 || strings.HasPrefix(e.Refusal, "Credential") {
			t.Errorf("with personal credentials: %+v", e)
		}
	}
	if len(personal) != len(all) || len(problems) > 0 {
		t.Errorf("%d with personal credentials, and %v", len(personal), problems)
	}

	soc.Spec.CredentialType = ""
	for _, what := range []string{"ZosEndpointList", "Secret good"} {
		again := &mapping.Resolver{Client: r.Client, Reader: r.Reader}
		r.reading = func(is string) error {
			if is == what {
				return errAway
			}
			return nil
		}
		if _, _, err := again.Endpoints(t.Context(), soc, soc.Spec.Mapping[0]); !errors.Is(err, errAway) || status.Is(err) {
			t.Errorf("%s cannot be read: %v", what, err)
		}
	}
}

// A Secret is sent to the server that the same user names: so it must be labelled for that.
func TestCredentialsForDependencies(t *testing.T) {
	r := newRig(t)
	defaults := render.DependencySettings{GalaxyURL: "https://galaxy.default", PipIndexURL: "https://pip.default", Credentials: map[string][]byte{"galaxy-token": []byte("default")}}
	labelled := map[string]string{"zoscb.ibm.com/credential": "true"}
	for name, test := range map[string]struct {
		labels  map[string]string
		data    map[string]string
		problem string
	}{
		"token":      {labelled, map[string]string{render.KeyGalaxyToken: " secret\n", "other": "x"}, ""},
		"unlabelled": {nil, map[string]string{render.KeyGalaxyToken: "secret"}, "is not labelled as a credential"},
		"disallowed": {map[string]string{"zoscb.ibm.com/credential": "false"}, map[string]string{render.KeyGalaxyToken: "secret"}, "is not labelled as a credential"},
		"empty":      {labelled, map[string]string{render.KeyGalaxyToken: " "}, "has none of the keys"},
		"both":       {labelled, map[string]string{render.KeyGalaxyToken: "a", render.KeyGalaxyUsername: "b", render.KeyGalaxyPassword: "c"}, "has both"},
		"half":       {labelled, map[string]string{render.KeyGalaxyUsername: "b"}, "needs both"},
		"half-pip":   {labelled, map[string]string{render.KeyPipPassword: "b"}, "needs both"},
		"no-pem":     {labelled, map[string]string{render.KeyCA: "b"}, "has no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			r.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name, Labels: test.labels}, StringData: test.data})
			oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.home}, Spec: v2beta2.OperatorCollectionSpec{
				Dependencies: &v2beta2.DependenciesSpec{GalaxyURL: "https://galaxy.mine", CredentialsSecret: name},
			}}
			settings, err := r.Dependencies(t.Context(), oc, defaults)
			if settings.GalaxyURL != "https://galaxy.mine" || settings.PipIndexURL != "https://pip.default" {
				t.Errorf("got %+v", settings)
			}
			if test.problem != "" {
				if expectProblem(t, []error{err}, v2beta2.ReasonCredentialsInvalid, test.problem); len(settings.Credentials) > 0 {
					t.Errorf("the credentials are used: %v", settings.Credentials)
				}
				return
			}
			apiserver.Must(t, err)
			if len(settings.Credentials) != 1 || string(settings.Credentials[render.KeyGalaxyToken]) != "secret" {
				t.Errorf("got %q", settings.Credentials)
			}
		})
	}
	for name, problem := range map[string]string{"absent": "does not exist in namespace", "../other/secret": "does not exist in namespace"} {
		oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.home}, Spec: v2beta2.OperatorCollectionSpec{Dependencies: &v2beta2.DependenciesSpec{CredentialsSecret: name}}}
		_, err := r.Dependencies(t.Context(), oc, defaults)
		expectProblem(t, []error{err}, v2beta2.ReasonCredentialsInvalid, problem)
	}
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.home}}
	if settings, err := r.Dependencies(t.Context(), oc, defaults); err != nil || string(settings.Credentials["galaxy-token"]) != "default" {
		t.Errorf("the defaults: %+v, %v", settings, err)
	}
	oc.Spec.Dependencies = &v2beta2.DependenciesSpec{CredentialsSecret: "token"}
	r.reading = func(string) error { return errAway }
	if _, err := r.Dependencies(t.Context(), oc, defaults); !errors.Is(err, errAway) || status.Is(err) {
		t.Errorf("got %v", err)
	}
}
