package replica

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/collection-operator/collection-operator/internal/artifact"
)

func TestUploadAnswer(t *testing.T) {
	for code, final := range map[int]bool{
		http.StatusUnauthorized: true, http.StatusConflict: true, http.StatusRequestEntityTooLarge: true, http.StatusNotFound: true,
		http.StatusTooManyRequests: false, http.StatusServiceUnavailable: false, http.StatusInsufficientStorage: false, http.StatusInternalServerError: false,
	} {
		if err := uploadAnswer(code); err == nil || errors.Is(err, ErrUploadRefused) != final {
			t.Errorf("%d: got %v", code, err)
		}
	}
	if err := uploadAnswer(http.StatusCreated); err != nil {
		t.Error(err)
	}
}

func TestSendUploadNeedsTLS(t *testing.T) {
	p := &Peers{Scheme: "http"}
	if err := p.SendUpload(context.Background(), artifact.Upload{}, "secret"); !errors.Is(err, ErrUploadRefused) {
		t.Errorf("got %v", err)
	}
}
