package runner

import (
	"path/filepath"
	"testing"
)

func TestSkips(t *testing.T) {
	s := skips{file: filepath.Join(t.TempDir(), "skips", "File")}
	if n, err := s.take(); n != 0 || err != nil {
		t.Errorf("before the first: %d, %v", n, err)
	}
	for i := range int64(3) {
		if n, err := s.add(); n != i+1 || err != nil {
			t.Errorf("added: %d, %v", n, err)
		}
	}
	if n, err := s.take(); n != 3 || err != nil {
		t.Errorf("taken: %d, %v", n, err)
	}
	if n, err := s.take(); n != 0 || err != nil {
		t.Errorf("taken again: %d, %v", n, err)
	}
	if n, err := s.add(); n != 1 || err != nil {
		t.Errorf("added after: %d, %v", n, err)
	}
}
