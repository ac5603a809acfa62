package cache

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// Labels and annotations that controllers read from the cache.
var (
	cachedLabels = []string{
		render.LabelManagedBy, render.LabelDomain, render.LabelName, render.LabelVersion, operatorsv1alpha1.CopiedLabelKey,
	}
	cachedAnnotations = []string{install.AnnotationOwner, corev1.ServiceAccountNameKey}
)

// keepMetadata transforms objects for the cache of which controllers read only the metadata, and of Deployments whether their pods run.
// Of an object with 256 KiB of annotations a few hundred bytes remain.
func keepMetadata(cached any) (any, error) {
	object, ok := cached.(client.Object)
	if !ok {
		return cached, nil // The last state of an object that was deleted unseen.
	}
	annotations := cachedAnnotations
	if deployment, ok := object.(*appsv1.Deployment); ok {
		install.KeepDeployment(deployment)
		annotations = install.AnnotationsOfDeployment
	}
	object.SetManagedFields(nil)
	object.SetFinalizers(nil)
	object.SetLabels(only(object.GetLabels(), cachedLabels))
	object.SetAnnotations(only(object.GetAnnotations(), annotations))
	return object, nil
}

// keepPod transforms the pods of operators for the cache.
func keepPod(cached any) (any, error) {
	if pod, ok := cached.(*corev1.Pod); ok {
		install.KeepPod(pod)
	}
	return cached, nil
}

// keepName transforms the Leases of operators for the cache, of which controllers read only whether they have changed. They can be as
// large as those who may write them like; see package runcounts. A Lease must be read live before it is updated: what is cached has no holder.
func keepName(cached any) (any, error) {
	object, ok := cached.(client.Object)
	if !ok {
		return cached, nil
	}
	if lease, ok := object.(*coordinationv1.Lease); ok {
		lease.Spec = coordinationv1.LeaseSpec{}
	}
	object.SetManagedFields(nil)
	object.SetFinalizers(nil)
	object.SetOwnerReferences(nil)
	object.SetLabels(only(object.GetLabels(), []string{runcount.Label}))
	object.SetAnnotations(nil)
	return object, nil
}

// keepNamespace transforms Namespaces for the cache. Their consent is kept however long it is: without it, operators are uninstalled.
func keepNamespace(cached any) (any, error) {
	object, ok := cached.(client.Object)
	if !ok {
		return cached, nil
	}
	allowed, isSet := object.GetAnnotations()[mapping.AnnotationAllow]
	if _, err := keepMetadata(object); err != nil || !isSet {
		return object, err
	}
	object.SetAnnotations(map[string]string{mapping.AnnotationAllow: strings.Clone(allowed)})
	return object, nil
}

// maxCachedBytes is the size from which on a value is not cached.
const maxCachedBytes = 16 << 10

// only returns the entries with these keys, or nil. The values are copied: else they would keep the whole response of the API
// server in memory.
func only(all map[string]string, keys []string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		value, ok := all[key]
		if !ok || len(value) > maxCachedBytes {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		kept[key] = strings.Clone(value)
	}
	return kept
}

// keepDefinition transforms CRDs for the cache, without their schemas: these are rendered or read live. What is left of them is which
// booleans a published version sets to false.
func keepDefinition(cached any) (any, error) {
	definition, ok := cached.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return cached, nil
	}
	definition.ManagedFields = nil
	for i := range definition.Spec.Versions {
		version := &definition.Spec.Versions[i]
		version.Schema, version.AdditionalPrinterColumns = crd.OnlyFalse(version), nil
	}
	return definition, nil
}

// annotationOthers has, in the cache, the hash of all annotations that controllers do not read there. It changes with each.
const annotationOthers = "zoscb.ibm.com/others"

// KeepOwn transforms OperatorCollections, SubOperatorConfigs and ZosEndpoints for the cache. A changed annotation still triggers
// a reconcile, which reads the object live.
func KeepOwn(cached any) (any, error) {
	object, ok := cached.(client.Object)
	if !ok {
		return cached, nil
	}
	object.SetManagedFields(imports.FindSetByOthers(object).Fields)
	all := object.GetAnnotations()
	kept := only(all, []string{v2beta2.AnnotationDefault, imports.AnnotationArtifact, olm.AnnotationMadeFor})
	if others := len(all) - len(kept); others > 1 || others == 1 && len(all[annotationOthers]) != 2*sha256.Size {
		if kept == nil {
			kept = map[string]string{}
		}
		kept[annotationOthers] = hashOf(all)
	} else if others == 1 {
		return object, nil // It was transformed before.
	}
	object.SetAnnotations(kept)
	return object, nil
}

func hashOf(annotations map[string]string) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		fmt.Fprintf(sum, "%q %q\n", name, annotations[name])
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
