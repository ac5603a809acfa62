package reader

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

func TestPageOf(t *testing.T) {
	const columns = `"columnDefinitions":[{"name":"Name"},{"name":"Type"},{"name":"Data"},{"name":"Age"}]`
	const object = `{"metadata":{"namespace":"zos","name":"logon","labels":{"a":"b"},"annotations":{"c":"d"}}}`
	secret := snapshot.Secret{Namespace: "zos", Name: "logon", Type: "Opaque", Keys: 2, Labels: map[string]string{"a": "b"}, Annotations: []string{"c"}}
	row := func(cells, object string) string { return `{"cells":` + cells + `,"object":` + object + `}` }
	table := func(rows string) string {
		return `{"kind":"Table","metadata":{"continue":"next"},` + columns + `,"rows":[` + rows + `]}`
	}
	read := row(`["logon","Opaque",2,"5m"]`, object)
	for name, test := range map[string]struct {
		raw  string
		want *secretPage
	}{
		"a table":                {table(read), &secretPage{[]snapshot.Secret{secret}, true, "next"}},
		"an empty table":         {table(""), &secretPage{nil, true, "next"}},
		"a row without object":   {table(row(`["logon","Opaque",2,"5m"]`, "null") + "," + read), &secretPage{[]snapshot.Secret{secret}, false, "next"}},
		"a row with less cells":  {table(row(`["logon","Opaque"]`, object)), &secretPage{nil, false, "next"}},
		"a row with other types": {table(row(`["logon",1,"Opaque","5m"]`, object)), &secretPage{nil, false, "next"}},
		"a list":                 {`{"kind":"SecretList","items":[{"metadata":{"name":"logon"},"data":{"a":"Yg=="}}]}`, nil},
		"a table of others":      {`{"kind":"Table","columnDefinitions":[{"name":"Name"},{"name":"Created At"}],"rows":[` + read + `]}`, nil},
		"no JSON":                {"<html>", nil},
	} {
		got, err := pageOf([]byte(test.raw))
		if (err == nil) != (test.want != nil) {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(secretPage{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Only what the user may not read is no failure.
func TestUnreadable(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		want   []string
		failed int
	}{
		"not served":   {apierrors.NewNotFound(core("pods").GroupResource(), "x"), nil, 0},
		"forbidden":    {apierrors.NewForbidden(core("pods").GroupResource(), "", nil), []string{"you may not read pods in namespace zos"}, 0},
		"unauthorized": {apierrors.NewUnauthorized("no"), []string{"you may not read pods in namespace zos"}, 0},
		"error":        {apierrors.NewInternalError(errors.New("no etcd")), []string{"pods in namespace zos could not be read: Internal error occurred: no etcd"}, 1},
		"timeout":      {context.DeadlineExceeded, []string{"pods in namespace zos could not be read: context deadline exceeded"}, 1},
	} {
		s := snapshot.New(time.Time{})
		unreadable(s, test.err, "pods", "zos")
		if diff := cmp.Diff(test.want, s.Unread); diff != "" || s.Failed != test.failed {
			t.Errorf("%s: %d failed, and unread (-want +got):\n%s", name, s.Failed, diff)
		}
	}
}
