package podfiles

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSkips(t *testing.T) {
	s := Skips{File: filepath.Join(t.TempDir(), "skips", "File")}
	if n, err := s.Take(); n != 0 || err != nil {
		t.Errorf("before the first: %d, %v", n, err)
	}
	for i := range int64(3) {
		if n, err := s.Add(); n != i+1 || err != nil {
			t.Errorf("added: %d, %v", n, err)
		}
	}
	if n, err := s.Take(); n != 3 || err != nil {
		t.Errorf("taken: %d, %v", n, err)
	}
	if n, err := s.Take(); n != 0 || err != nil {
		t.Errorf("taken again: %d, %v", n, err)
	}
	if n, err := s.Add(); n != 1 || err != nil {
		t.Errorf("added after: %d, %v", n, err)
	}
	if n, err := s.Take(); n != 1 || err != nil {
		t.Errorf("taken once more: %d, %v", n, err)
	}
	if err := s.PutBack(0); err != nil {
		t.Error(err)
	}
	if _, err := s.Add(); err != nil { // Another call, while the Lease could not be written.
		t.Error(err)
	}
	if err := s.PutBack(12); err != nil {
		t.Error(err)
	}
	if n, err := s.Take(); n != 13 || err != nil {
		t.Errorf("taken after 12 were put back: %d, %v", n, err)
	}
	if left, err := os.ReadDir(filepath.Dir(s.File)); err != nil || len(left) > 0 {
		t.Errorf("files remain: %v, %v", left, err)
	}
}
