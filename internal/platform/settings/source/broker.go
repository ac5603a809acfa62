package source

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/collection-operator/collection-operator/api/v2beta1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/settings"
)

const (
	// fieldOwner owns the fields of the status.
	fieldOwner = "collection-operator-settings"
	// maxConditionMessage limits the message of a condition in bytes. The API server allows 32 KiB.
	maxConditionMessage = 8 << 10
)

// brokerResource are ZosCloudBrokers.
var brokerResource = v2beta1.GroupVersion.WithResource("zoscloudbrokers")

// Settings are the objects with the settings of a manager.
type Settings struct {
	// ConfigMap has no resourceVersion if it does not exist.
	ConfigMap *corev1.ConfigMap
	// Brokers are the ZosCloudBrokers in the namespace. The first, which is the oldest, counts.
	Brokers []*v2beta1.ZosCloudBroker
}

// Data returns the settings as those of a ConfigMap. The ConfigMap has precedence over a ZosCloudBroker.
func (s *Settings) Data() map[string]string {
	if len(s.Brokers) == 0 {
		return settings.Overlay(nil, s.ConfigMap.Data)
	}
	broker := s.Brokers[0]
	return settings.Overlay(settings.FromBroker(&broker.Spec, broker.Namespace), s.ConfigMap.Data)
}

// Exist reports whether there is any of them.
func (s *Settings) Exist() bool { return s.ConfigMap.ResourceVersion != "" || len(s.Brokers) > 0 }

// objects are those that exist and count.
func (s *Settings) objects() []runtime.Object {
	var objects []runtime.Object
	if s.ConfigMap.ResourceVersion != "" || len(s.Brokers) == 0 {
		objects = append(objects, s.ConfigMap)
	}
	if len(s.Brokers) > 0 {
		objects = append(objects, s.Brokers[0])
	}
	return objects
}

// brokers are the ZosCloudBrokers of a namespace.
type brokers struct {
	dynamic   dynamic.Interface
	namespace string
	// served is true if the cluster served them when they were read.
	served bool
}

// list returns the ZosCloudBrokers, also if the cluster does not serve them.
func (b *brokers) list(ctx context.Context) ([]*v2beta1.ZosCloudBroker, error) {
	list, err := b.dynamic.Resource(brokerResource).Namespace(b.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing ZosCloudBrokers in namespace %q: %w", b.namespace, err)
	}
	b.served = true
	var objects []any
	for i := range list.Items {
		objects = append(objects, &list.Items[i])
	}
	return brokersOf(objects), nil
}

// follow notifies of changes of ZosCloudBrokers. If the cluster did not serve them when they were read, there are none.
func (b *brokers) follow(ctx context.Context, notify func()) (func() []*v2beta1.ZosCloudBroker, cache.InformerSynced) {
	if !b.served {
		return func() []*v2beta1.ZosCloudBroker { return nil }, func() bool { return true }
	}
	brokers := b.dynamic.Resource(brokerResource).Namespace(b.namespace)
	store, synced := follow(ctx, notify, &unstructured.Unstructured{}, &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return brokers.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return brokers.Watch(ctx, options)
		},
	})
	return func() []*v2beta1.ZosCloudBroker { return brokersOf(store.List()) }, synced
}

// follow watches objects, and notifies of each change.
func follow(ctx context.Context, notify func(), object runtime.Object, objects cache.ListerWatcher) (cache.Store, cache.InformerSynced) {
	store, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: objects, ObjectType: object,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { notify() }, UpdateFunc: func(any, any) { notify() }, DeleteFunc: func(any) { notify() },
		},
	})
	go informer.RunWithContext(ctx)
	return store, informer.HasSynced
}

// brokersOf returns the oldest first. The API server has checked their fields.
func brokersOf(objects []any) []*v2beta1.ZosCloudBroker {
	var brokers []*v2beta1.ZosCloudBroker
	for _, object := range objects {
		broker := &v2beta1.ZosCloudBroker{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.(*unstructured.Unstructured).Object, broker); err == nil {
			brokers = append(brokers, broker)
		}
	}
	slices.SortFunc(brokers, func(a, b *v2beta1.ZosCloudBroker) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return brokers
}

// report writes the status of ZosCloudBrokers that have another one.
func (b *brokers) report(ctx context.Context, brokers []*v2beta1.ZosCloudBroker, status settings.Status, consequence string) error {
	for i, broker := range brokers {
		wanted := brokerStatus(broker, status, consequence)
		if i > 0 {
			wanted = refusedStatus(broker, brokers[0].Name)
		}
		if equality.Semantic.DeepEqual(wanted, broker.Status) {
			continue
		}
		patch, err := json.Marshal(map[string]any{"status": wanted})
		if err != nil {
			return err
		}
		_, err = b.dynamic.Resource(brokerResource).Namespace(b.namespace).Patch(ctx, broker.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldOwner}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("writing the status of ZosCloudBroker %q: %w", broker.Name, err)
		}
	}
	return nil
}

// brokerStatus is that of the ZosCloudBroker that counts.
func brokerStatus(broker *v2beta1.ZosCloudBroker, status settings.Status, consequence string) v2beta1.ZosCloudBrokerStatus {
	if status.Problem == nil {
		message := "the settings are used"
		if ignored := settings.Ignored(&broker.Spec); len(ignored) > 0 {
			message += "; without effect: " + strings.Join(ignored, "; ")
		}
		return withConditions(broker, v2beta1.PhaseSuccessful, metav1.ConditionTrue, v2beta2.ReasonSucceeded, message)
	}
	phase := v2beta1.PhaseSuccessful
	if status.Waiting {
		phase = v2beta1.PhaseFailed
	}
	return withConditions(broker, phase, metav1.ConditionFalse, v2beta2.ReasonSettingsInvalid, consequence+": "+status.Message())
}

func refusedStatus(broker *v2beta1.ZosCloudBroker, oldest string) v2beta1.ZosCloudBrokerStatus {
	return withConditions(broker, v2beta1.PhaseFailed, metav1.ConditionFalse, v2beta2.ReasonSettingsInvalid,
		fmt.Sprintf("ZosCloudBroker %q is older, and counts alone: delete one of them", oldest))
}

func withConditions(broker *v2beta1.ZosCloudBroker, phase string, ready metav1.ConditionStatus, reason, message string) v2beta1.ZosCloudBrokerStatus {
	message = printable.Cut(message, maxConditionMessage)
	status := *broker.Status.DeepCopy()
	status.Phase, status.Message, status.ObservedGeneration = phase, message, broker.Generation
	condition := metav1.Condition{Type: v2beta2.ConditionReady, Status: ready, Reason: reason, Message: message, ObservedGeneration: broker.Generation}
	meta.SetStatusCondition(&status.Conditions, condition)
	if ready == metav1.ConditionTrue {
		meta.RemoveStatusCondition(&status.Conditions, v2beta2.ConditionStalled)
		return status
	}
	condition.Type, condition.Status = v2beta2.ConditionStalled, metav1.ConditionTrue
	meta.SetStatusCondition(&status.Conditions, condition)
	return status
}
