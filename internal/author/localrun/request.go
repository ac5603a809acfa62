package localrun

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// serve handles a request. Nothing remains of one with dryRun=All, which kubernetes.core sends in check mode.
func (a *api) serve(t target, method, contentType string, body []byte) (int, any) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if slices.Contains(t.query["dryRun"], metav1.DryRunAll) {
		objects, revision, writes := maps.Clone(a.objects), a.revision, a.writes
		defer func() { a.objects, a.revision, a.writes = objects, revision, writes }()
	}
	return a.handle(t, method, contentType, body)
}

// selector is that of the labels of a list.
func (t target) selector() (labels.Selector, error) {
	if t.query.Get("fieldSelector") != "" {
		return nil, errors.New("the local run has no field selectors")
	}
	return labels.Parse(t.query.Get("labelSelector"))
}

// complete sets what the URL of a request says about an object, and the data of a Secret. If the object contradicts the URL or has no
// name, it returns the answer.
func (t target) complete(o *unstructured.Unstructured) (int, any) {
	if t.name == "" {
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "", "metadata.name: Required value: name or generateName is required")
	}
	if problems := content.IsPathSegmentName(t.name); len(problems) > 0 {
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "", "metadata.name: "+problems[0])
	}
	err := t.identify(o)
	if err == nil && t.kind.Group == "" && t.kind.Kind == "Secret" {
		err = convertStringData(o)
	}
	if err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, t.name, err.Error())
	}
	return 0, nil
}

func (t target) identify(o *unstructured.Unstructured) error {
	for _, field := range []struct {
		name, given, want string
		set               func(string)
	}{
		{"apiVersion", o.GetAPIVersion(), t.kind.groupVersion().String(), o.SetAPIVersion},
		{"kind", o.GetKind(), t.kind.Kind, o.SetKind},
		{"metadata.name", o.GetName(), t.name, o.SetName},
		{"metadata.namespace", o.GetNamespace(), t.namespace, o.SetNamespace},
	} {
		if field.given != "" && field.given != field.want {
			return fmt.Errorf("%s of the object is %q, and that of the URL is %q", field.name, field.given, field.want)
		}
		field.set(field.want)
	}
	return nil
}

// convertStringData moves the texts in stringData of a Secret to data, as the API server does.
func convertStringData(o *unstructured.Unstructured) error {
	texts, found, err := unstructured.NestedStringMap(o.Object, "stringData")
	if err != nil || !found {
		return err
	}
	for key, text := range texts {
		if err := unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString([]byte(text)), "data", key); err != nil {
			return err
		}
	}
	unstructured.RemoveNestedField(o.Object, "stringData")
	return nil
}
