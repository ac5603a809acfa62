package podfiles

import (
	"testing"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestARunThatIsAlone(t *testing.T) {
	alone := Alone{Dir: t.TempDir()}
	first, _, err := alone.Share()
	apiserver.Must(t, err)
	second, _, err := alone.Share()
	apiserver.Must(t, err)
	if first == nil || second == nil {
		t.Fatal("runs that are not alone do not share the lock")
	}
	apiserver.Must(t, first.Close())
	if lock, other, err := alone.Take("Job/one"); lock != nil || other != "" || err != nil {
		t.Errorf("beside another run: %v, %q, %v", lock, other, err)
	}
	apiserver.Must(t, second.Close())
	for _, resource := range []string{"Job/longer", "Job/one"} {
		lock, _, err := alone.Take(resource)
		if lock == nil || err != nil {
			t.Fatal(lock, err)
		}
		if lock, other, err := alone.Share(); lock != nil || other != resource || err != nil {
			t.Errorf("beside %s: %v, %q, %v", resource, lock, other, err)
		}
		if lock, other, err := alone.Take("Job/two"); lock != nil || other != resource || err != nil {
			t.Errorf("beside %s, alone: %v, %q, %v", resource, lock, other, err)
		}
		apiserver.Must(t, lock.Close())
	}
}
