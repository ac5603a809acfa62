package kubeapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// target is what a request is about. name is empty for all objects of a kind.
type target struct {
	kind            Kind
	namespace, name string
	status          bool
	ofPlaybook      bool
	query           url.Values
}

func (t target) path() string { return t.kind.Path(t.namespace, t.name) }

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
		{"apiVersion", o.GetAPIVersion(), t.kind.GroupVersion().String(), o.SetAPIVersion},
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

// Decode reads JSON, with integers as int64.
func Decode(body []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &object.Object); err != nil {
		return object, err
	}
	metadata, given := object.Object["metadata"]
	if _, isMap := metadata.(map[string]any); object.Object == nil || given && !isMap {
		return object, errors.New("this is not an object of Kubernetes")
	}
	return object, nil
}

func patched(present *unstructured.Unstructured, method, contentType string, body []byte) (*unstructured.Unstructured, error) {
	if method == http.MethodPut {
		return Decode(body)
	}
	before, err := json.Marshal(present)
	if err != nil {
		return nil, err
	}
	if contentType == string(types.JSONPatchType) {
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, err
		}
		after, err := patch.Apply(before)
		if err != nil {
			return nil, err
		}
		return Decode(after)
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		return nil, err
	}
	return Decode(after)
}

func setField(object *unstructured.Unstructured, field string, value any) {
	if value == nil {
		unstructured.RemoveNestedField(object.Object, field)
		return
	}
	object.Object[field] = value
}

func setOrRemove(object, from *unstructured.Unstructured, field string) {
	setField(object, field, from.Object[field])
}

func answer(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document)
}

func failure(code int32, reason metav1.StatusReason, name, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Name: name},
	}
}
