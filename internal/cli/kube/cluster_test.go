package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/restmapper"
)

func TestFindMapping(t *testing.T) {
	served := func(group, kind string, versions ...string) *restmapper.APIGroupResources {
		resources := &restmapper.APIGroupResources{
			Group: metav1.APIGroup{Name: group}, VersionedResources: map[string][]metav1.APIResource{},
		}
		singular := strings.ToLower(kind)
		for _, version := range versions {
			resources.Group.Versions = append(resources.Group.Versions, metav1.GroupVersionForDiscovery{Version: version})
			resources.VersionedResources[version] = []metav1.APIResource{{Name: singular + "s", SingularName: singular, Kind: kind, Namespaced: true}}
		}
		resources.Group.PreferredVersion = resources.Group.Versions[0]
		return resources
	}
	mapper := restmapper.NewDiscoveryRESTMapper([]*restmapper.APIGroupResources{
		served("suboperator.zoscb.ibm.com", "Thing", "v1minor0patch0"),
		served("one.acme.suboperator.zoscb.ibm.com", "Thing", "v1minor0patch0"),
		served("two.acme.suboperator.zoscb.ibm.com", "DataFile", "v1minor1patch0", "v1minor0patch0"),
		served("xsuboperator.zoscb.ibm.com", "Other", "v1"),
		served("", "Pod", "v1"),
	})
	for _, test := range []struct{ word, want, problem string }{
		{word: "datafile", want: "datafiles.two.acme.suboperator.zoscb.ibm.com"},
		{word: "datafiles", want: "datafiles.two.acme.suboperator.zoscb.ibm.com"},
		{word: "DataFile", want: "datafiles.two.acme.suboperator.zoscb.ibm.com"},
		{word: "DATAFILES.two.acme.suboperator.zoscb.ibm.com", want: "datafiles.two.acme.suboperator.zoscb.ibm.com"},
		{word: "thing", problem: "give the group too, as one of thing.one.acme.suboperator.zoscb.ibm.com, thing.suboperator.zoscb.ibm.com"},
		{word: "things.suboperator.zoscb.ibm.com", want: "things.suboperator.zoscb.ibm.com"},
		{word: "thing.one.acme.suboperator.zoscb.ibm.com", want: "things.one.acme.suboperator.zoscb.ibm.com"},
		{word: "pod", problem: `no kind "pod" of a collection`},
		{word: "other", problem: `no kind "other" of a collection`},
		{word: "nothing", problem: `no kind "nothing" of a collection`},
	} {
		mapping, err := findMapping(mapper, test.word)
		switch {
		case test.problem != "":
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: got %v, want an error with %q", test.word, err, test.problem)
			}
		case err != nil:
			t.Errorf("%s: %v", test.word, err)
		default:
			if got := mapping.Resource.GroupResource().String(); got != test.want {
				t.Errorf("%s: got %s, want %s", test.word, got, test.want)
			}
		}
	}
}
