package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// provider is an OperatorCollection that provides the package of a Subscription.
type provider struct {
	oc *v2beta2.OperatorCollection
	// collection has domain, name and version only.
	collection *model.Collection
	// refused is the reason why no SubOperatorConfig may be created for the Subscription's namespace, or nil.
	refused error
}

// creator creates SubOperatorConfigs for Subscriptions.
type creator struct {
	client   client.Client
	reader   client.Reader
	recorder events.EventRecorder
}

// ensureSubOperatorConfig creates the SubOperatorConfig for a Subscription if there is none. Its error has a reason if a
// user has to resolve it.
func (r *creator) ensureSubOperatorConfig(ctx context.Context, subscription *operatorsv1alpha1.Subscription) error {
	providers, err := r.providers(ctx, subscription)
	if err != nil {
		return err
	}
	// Read live as well: the cache may lack a SubOperatorConfig that was just created.
	if mapped, err := r.isMapped(ctx, r.client, subscription, providers); err != nil || mapped {
		return err
	}
	if mapped, err := r.isMapped(ctx, r.reader, subscription, providers); err != nil || mapped {
		return err
	}
	best := preferredProvider(subscription, providers)
	switch {
	case best == nil:
		return status.Waiting(v2beta2.ReasonCollectionNotFound, intervals.Missing,
			"no imported OperatorCollection provides package %q: the operator waits for a SubOperatorConfig", subscription.Spec.Package)
	case best.refused != nil:
		return best.refused
	}
	return r.create(ctx, subscription, best)
}

// providers returns the OperatorCollections with the Subscription's package. A package name cannot be split into domain and
// name, so it is compared with those of all OperatorCollections.
func (r *creator) providers(ctx context.Context, subscription *operatorsv1alpha1.Subscription) ([]provider, error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var providers []provider
	for i := range list.Items {
		oc := &list.Items[i]
		c := importedCollection(oc)
		if c == nil || render.PackageName(c) != subscription.Spec.Package {
			continue
		}
		refused, err := r.refusal(ctx, oc, subscription.Namespace)
		if err != nil {
			return nil, err
		}
		providers = append(providers, provider{oc: oc, collection: c, refused: refused})
	}
	return providers, nil
}

// importedCollection returns the identity of the collection that an OperatorCollection has imported, or nil if it provides
// no package.
func importedCollection(oc *v2beta2.OperatorCollection) *model.Collection {
	published := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionPublished)
	conflict := published != nil && published.Reason == v2beta2.ReasonPackageConflict
	if oc.DeletionTimestamp != nil || oc.Status.Collection == nil || conflict ||
		!meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionImported) {
		return nil
	}
	version, err := semver.NewVersion(oc.Status.Collection.Version)
	if err != nil {
		return nil
	}
	return &model.Collection{Domain: oc.Status.Collection.Domain, Name: oc.Status.Collection.Name, Version: version}
}

// refusal returns the reason why an OperatorCollection may not be installed in a namespace without the consent of its own,
// or nil.
func (r *creator) refusal(ctx context.Context, oc *v2beta2.OperatorCollection, namespace string) (refused, err error) {
	if err := mapping.Consent(ctx, r.client, oc.Namespace, namespace); err != nil {
		if f := (*status.Error)(nil); !errors.As(err, &f) {
			return nil, err
		}
		return status.Waiting(v2beta2.ReasonMappingNotAllowed, intervals.Missing,
			"the operator waits for a SubOperatorConfig: OperatorCollection %q is in namespace %q, which may not map this namespace: annotate namespace %q with %s: %s, and this SubOperatorConfig is created automatically: %s",
			oc.Name, oc.Namespace, namespace, mapping.AnnotationAllow, oc.Namespace, manifest(oc, namespace)), nil
	}
	if oc.Namespace != namespace && oc.Spec.Dependencies != nil && oc.Spec.Dependencies.CredentialsSecret != "" {
		return status.Waiting(v2beta2.ReasonMappingNotAllowed, intervals.Missing,
			"the operator waits for a SubOperatorConfig: it would copy the Secret in spec.dependencies.credentialsSecret of OperatorCollection %q into this namespace, "+
				"which only a user of namespace %q may do, by creating: %s",
			oc.Name, oc.Namespace, manifest(oc, namespace)), nil
	}
	return nil, nil
}

// manifest returns the SubOperatorConfig for a namespace, on one line, as kubectl reads it.
func manifest(oc *v2beta2.OperatorCollection, namespace string) string {
	return fmt.Sprintf("{apiVersion: %s, kind: SubOperatorConfig, metadata: {namespace: %s, name: %s}, spec: {operatorCollection: %s, install: %s, mapping: [%s]}}",
		v2beta2.GroupVersion, oc.Namespace, namesFor(oc, namespace)[0], oc.Name, v2beta2.InstallOLM, mappingManifest(oc, namespace))
}

func mappingManifest(oc *v2beta2.OperatorCollection, namespace string) string {
	if oc.Namespace == namespace {
		return fmt.Sprintf("{namespace: %s}", namespace)
	}
	return fmt.Sprintf("{namespace: %s, zosendpoints: []}", namespace)
}

// isMapped reports whether a SubOperatorConfig maps the Subscription's namespace for the collection. It fails if that one
// installs without OLM: then the manager and OLM would replace each other's Deployment.
func (r *creator) isMapped(ctx context.Context, reader client.Reader, subscription *operatorsv1alpha1.Subscription, providers []provider) (bool, error) {
	for _, p := range providers {
		socs, err := imports.SubOperatorConfigsOf(ctx, reader, p.oc)
		if err != nil {
			return false, err
		}
		for i := range socs {
			soc := &socs[i]
			switch {
			case soc.DeletionTimestamp != nil || !mapping.Maps(soc, subscription.Namespace):
				continue
			case soc.Spec.Install == v2beta2.InstallDirect:
				return false, status.Waiting(v2beta2.ReasonMappingConflict, intervals.Missing,
					"SubOperatorConfig %q in namespace %q runs this operator without OLM: set its spec.install to %s, or delete this Subscription",
					soc.Name, soc.Namespace, v2beta2.InstallOLM)
			}
			if allowed := mapping.Consent(ctx, r.client, soc.Namespace, subscription.Namespace); allowed == nil {
				return true, nil
			}
		}
	}
	return false, nil
}

// preferredProvider returns the provider to use, or nil if there is none. In this order, it prefers one that may be
// installed, has the version that OLM installs, is in the Subscription's namespace, and is the newest.
func preferredProvider(subscription *operatorsv1alpha1.Subscription, providers []provider) *provider {
	wanted := cmp.Or(subscription.Status.InstalledCSV, subscription.Status.CurrentCSV, subscription.Spec.StartingCSV)
	if len(providers) == 0 {
		return nil
	}
	first := slices.MinFunc(providers, func(a, b provider) int {
		return cmp.Or(
			trueFirst(a.refused == nil, b.refused == nil),
			trueFirst(a.collection.CSVName() == wanted, b.collection.CSVName() == wanted),
			trueFirst(a.oc.Namespace == subscription.Namespace, b.oc.Namespace == subscription.Namespace),
			b.collection.Version.Compare(a.collection.Version),
			cmp.Compare(a.oc.Namespace+"/"+a.oc.Name, b.oc.Namespace+"/"+b.oc.Name),
		)
	})
	return &first
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// create creates the SubOperatorConfig, with an alternative name if the first one is in use.
func (r *creator) create(ctx context.Context, subscription *operatorsv1alpha1.Subscription, p *provider) error {
	var err error
	for _, name := range namesFor(p.oc, subscription.Namespace) {
		soc := subOperatorConfigFor(subscription, p, name)
		err = r.client.Create(ctx, soc, client.FieldOwner(apply.FieldOwner))
		if err == nil {
			r.recorder.Eventf(subscription, soc, corev1.EventTypeNormal, v2beta2.ReasonSucceeded, "Install",
				"created SubOperatorConfig %q in namespace %q", soc.Name, soc.Namespace)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	return fmt.Errorf("creating a SubOperatorConfig in namespace %q: %w", p.oc.Namespace, err)
}

// subOperatorConfigFor returns a SubOperatorConfig that maps the namespace of a Subscription. A namespace other than the
// collection's gets no endpoints: its users have no right to the credentials in the collection's namespace.
func subOperatorConfigFor(subscription *operatorsv1alpha1.Subscription, p *provider, name string) *v2beta2.SubOperatorConfig {
	mapping := v2beta2.NamespaceMapping{Namespace: subscription.Namespace}
	if p.oc.Namespace != subscription.Namespace {
		mapping.ZosEndpoints = &[]v2beta2.EndpointMapping{}
	}
	return &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.oc.Namespace, Name: name,
			Labels: render.Labels(p.collection),
			Annotations: map[string]string{
				olm.AnnotationMadeFor: fmt.Sprintf("%s/%s/%s", subscription.Namespace, subscription.Name, subscription.UID),
			},
		},
		Spec: v2beta2.SubOperatorConfigSpec{
			OperatorCollection: p.oc.Name,
			Mapping:            []v2beta2.NamespaceMapping{mapping},
			Install:            v2beta2.InstallOLM,
		},
	}
}

// namesFor returns candidate names for the SubOperatorConfig that maps a namespace. The readable name is omitted if it is
// too long, and may be in use: joined names are ambiguous.
func namesFor(oc *v2beta2.OperatorCollection, namespace string) []string {
	suffix := "-" + imports.ShortHash("%q %q", oc.Name, namespace)
	room := min(len(oc.Name), validation.DNS1123SubdomainMaxLength-len(suffix))
	names := []string{strings.TrimRight(oc.Name[:room], "-.") + suffix}
	if plain := oc.Name + "-" + namespace; len(plain) <= validation.DNS1123SubdomainMaxLength {
		names = append([]string{plain}, names...)
	}
	return names
}
