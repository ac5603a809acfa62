package podfiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// maxFileBytes limits what is read of a file.
const maxFileBytes = 8 << 20

// ReadFile reads a file of at most maxFileBytes.
func ReadFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err == nil && len(content) > maxFileBytes {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes", maxFileBytes)}
	}
	return content, err
}

// ReadJSON decodes a file, with integers as int64 in untyped values, as in unstructured objects.
func ReadJSON(path string, into any) error {
	content, err := ReadFile(path)
	if err != nil {
		return err
	}
	if err := utiljson.Unmarshal(content, into); err != nil {
		return &fs.PathError{Op: "decode", Path: path, Err: err}
	}
	return nil
}

// WriteJSON replaces a file, and creates its folder if that is missing.
func WriteJSON(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o770); err != nil {
		return err
	}
	return replaceFile(path, content)
}

// replaceFile writes a file atomically, for this user alone.
func replaceFile(path string, content []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return ofFile(path, err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return ofFile(path, err)
}

// ofFile returns the error of a temporary file as one of the file that it was to become: its name is another one each time.
func ofFile(path string, err error) error {
	var cause syscall.Errno
	if errors.As(err, &cause) {
		return &fs.PathError{Op: "write", Path: path, Err: cause}
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ErrorText returns a text that is the same for each attempt of a call, and names neither a folder of the pod nor an address of the API server.
func ErrorText(err error) string {
	text := err.Error()
	if network := new(url.Error); errors.As(err, &network) {
		text = strings.ReplaceAll(text, network.Error(), "the API server cannot be reached")
	}
	if file := new(fs.PathError); errors.As(err, &file) {
		text = strings.ReplaceAll(text, file.Path, filepath.Base(file.Path))
	}
	return text
}
