package runs

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestConsequence(t *testing.T) {
	r := kube.Resource{
		Mapping:   &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: "suboperator.zoscb.ibm.com", Resource: "datafiles"}},
		Namespace: "zos", Name: "hello",
	}
	const begin = "datafiles.suboperator.zoscb.ibm.com/hello in namespace zos is removed without its deletion playbook. What it represents may be left on "
	nowhere := clitest.WithStatus(t, "{}")
	unstructured.RemoveNestedField(nowhere.Object, "spec")
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"new":          {clitest.WithStatus(t, "{}"), "ZosEndpoint lpar1."},
		"no endpoint":  {nowhere, "z/OS."},
		"ended":        {clitest.WithStatus(t, clitest.EndedRun), "ZosEndpoint lpar1. Its last run started at 2026-11-22T09:00:00Z, and ended as Succeeded."},
		"running":      {clitest.WithStatus(t, clitest.RunningRun+"}"), "ZosEndpoint lpar1. Its last run started at 2026-11-22T09:10:00Z, and has not ended."},
		"moved":        {clitest.WithStatus(t, strings.Replace(clitest.RunningRun, "lpar1", "lpar0, host: 'lpar0.example.com:22'", 1)+"}"), "ZosEndpoint lpar1 and ZosEndpoint lpar0. Its last run started at 2026-11-22T09:10:00Z on lpar0.example.com:22, and has not ended."},
		"not readable": {clitest.WithStatus(t, "lastRun: 7"), "ZosEndpoint lpar1."},
		"controls":     {clitest.WithStatus(t, strings.Replace(clitest.RunningRun, "lpar1", `"a\u001b[2Jb"`, 1)+"}"), `ZosEndpoint lpar1 and ZosEndpoint a\x1b[2Jb. Its last run started at 2026-11-22T09:10:00Z, and has not ended.`},
	} {
		if got := consequence(r, test.object); got != begin+test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, begin+test.want)
		}
	}
}

func TestRefusal(t *testing.T) {
	datafiles := schema.GroupResource{Group: "suboperator.zoscb.ibm.com", Resource: "datafiles"}
	policy := apierrors.NewForbidden(datafiles, "hello", errors.New("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: you need a permission"))
	if got := refusal(policy).Error(); got != "you need a permission" {
		t.Errorf("got %q", got)
	}
	for _, err := range []error{apierrors.NewForbidden(datafiles, "hello", errors.New("no")), errors.New("denied request: x")} {
		if !errors.Is(refusal(err), err) {
			t.Errorf("%v became %v", err, refusal(err))
		}
	}
}
