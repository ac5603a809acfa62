// Package source reads and watches the objects with the manager's settings, and reports what became of them.
package source

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/settings"
)

// maxNote limits the note of an event in bytes. The API server allows 1 KiB.
const maxNote = 1000

// Source has the settings of the managers of a namespace. Its methods are safe for concurrent use.
type Source struct {
	client    kubernetes.Interface
	namespace string
	brokers   brokers
	recorder  events.EventRecorder

	mu sync.Mutex
	// written is the data of the status, as it was read or written last.
	written map[string]string
}

// New returns the settings of the managers of a namespace. Events are recorded until the context ends.
func New(ctx context.Context, client kubernetes.Interface, resources dynamic.Interface, namespace string) (*Source, error) {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("recording events: %w", err)
	}
	recorder := broadcaster.NewRecorder(clientgoscheme.Scheme, "collection-operator")
	return &Source{client: client, namespace: namespace, brokers: brokers{dynamic: resources, namespace: namespace}, recorder: recorder}, nil
}

// Read returns the settings.
func (s *Source) Read(ctx context.Context) (*Settings, error) {
	config, err := s.get(ctx, settings.Name)
	if err != nil {
		return nil, err
	}
	brokers, err := s.brokers.list(ctx)
	return &Settings{ConfigMap: config, Brokers: brokers}, err
}

// ReadStatus returns the data of the status that a manager has written last.
func (s *Source) ReadStatus(ctx context.Context) (map[string]string, error) {
	config, err := s.get(ctx, settings.StatusName)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = config.Data
	return config.Data, nil
}

func (s *Source) get(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	config, err := s.client.CoreV1().ConfigMaps(s.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return s.absent(name), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %q in namespace %q: %w", name, s.namespace, err)
	}
	return config, nil
}

func (s *Source) absent(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
}

// Watch returns a channel with the settings, first as they are, then after each change. Of changes that follow each other while nobody
// receives, only the last is sent. It ends with the context.
func (s *Source) Watch(ctx context.Context) <-chan *Settings {
	changed, values := make(chan struct{}, 1), make(chan *Settings)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // The last change was not received yet.
		}
	}
	configs, configsSynced := follow(ctx, notify, &corev1.ConfigMap{}, cache.NewListWatchFromClient(s.client.CoreV1().RESTClient(), "configmaps",
		s.namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, settings.Name)))
	brokers, brokersSynced := s.brokers.follow(ctx, notify)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), configsSynced, brokersSynced) {
			notify() // What existed before may have been deleted before the watch began.
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if !configsSynced() || !brokersSynced() {
				continue
			}
			current := &Settings{ConfigMap: s.absent(settings.Name), Brokers: brokers()}
			if object, isThere, _ := configs.GetByKey(s.namespace + "/" + settings.Name); isThere {
				current.ConfigMap = object.(*corev1.ConfigMap)
			}
			select {
			case <-ctx.Done():
				return
			case values <- current:
			}
		}
	}()
	return values
}

// Report writes the status if it differs from the one that was read or written last, and that of the ZosCloudBrokers. If the problem is
// another one, it records an event about each of the settings. consequence says what the manager does about a problem.
func (s *Source) Report(ctx context.Context, current *Settings, status settings.Status, consequence string) error {
	data, err := status.Data()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.Equal(s.written, data) {
		return s.brokers.report(ctx, current.Brokers, status, consequence)
	}
	config := corev1apply.ConfigMap(settings.StatusName, s.namespace).WithData(data)
	_, err = s.client.CoreV1().ConfigMaps(s.namespace).Apply(ctx, config, metav1.ApplyOptions{FieldManager: fieldOwner, Force: true})
	if err != nil {
		return fmt.Errorf("writing ConfigMap %q in namespace %q: %w", settings.StatusName, s.namespace, err)
	}
	if status.Problem != nil && (s.written[settings.KeyMessage] != data[settings.KeyMessage] || s.written[settings.KeyObserved] != data[settings.KeyObserved]) {
		note := printable.Line(consequence+": "+status.Message(), maxNote)
		for _, object := range current.objects() {
			s.recorder.Eventf(object, nil, corev1.EventTypeWarning, v2beta2.ReasonSettingsInvalid, "Read", "%s", note)
		}
	}
	s.written = data
	return s.brokers.report(ctx, current.Brokers, status, consequence)
}
