package imports

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

func newCollectionCache(t *testing.T) *CollectionCache {
	t.Helper()
	store, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
	if err != nil {
		t.Fatal(err)
	}
	return &CollectionCache{Store: store}
}

// store stores the archive of a collection with a description of a number of bytes.
func (c *CollectionCache) store(t *testing.T, name string, description int) digest.Digest {
	t.Helper()
	folder := fstest.MapFS{}
	for file, content := range map[string]string{
		"galaxy.yml": fmt.Sprintf("{namespace: tests, name: %s, version: 1.0.0, readme: README.md, authors: [tests]}", name),
		"README.md":  "# Readme\n",
		"play.yml":   "- {name: Nothing, hosts: all, tasks: []}\n",
		"operator-config.yml": fmt.Sprintf("domain: tests\nname: %s\nversion: 1.0.0\ndisplayName: Things\ndescription: %s\nresources:\n  - {kind: Thing, playbook: play.yml}\n",
			name, strings.Repeat("word ", description/5+1)),
	} {
		folder[file] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	var content bytes.Buffer
	if err := galaxy.Build(folder, &content); err != nil {
		t.Fatal(err)
	}
	file, err := fetch.Save(&content, 1<<20, c.Store.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Store.Put(file); err != nil {
		t.Fatal(err)
	}
	return file.Digest
}

func TestSmallArchivesDoNotWaitForLargeOnes(t *testing.T) {
	c := newCollectionCache(t)
	small, large := c.store(t, "small", 0), c.store(t, "large", 500<<10)
	c.large.Lock() // As if one were loaded.
	done := make(chan error)
	go func() {
		_, err := c.Load(large)
		done <- err
	}()
	if loaded, err := c.Load(small); err != nil || loaded.Name != "small" {
		t.Fatalf("got %v, %v", loaded, err)
	}
	c.large.Unlock()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for _, archived := range []digest.Digest{small, large} {
		if c.loaded.get(archived) == nil {
			t.Errorf("%s is not remembered", archived)
		}
	}
}

func TestAnArchiveIsLoadedOnceForAll(t *testing.T) {
	c := newCollectionCache(t)
	archived := c.store(t, "one", 0)
	var wait sync.WaitGroup
	results := make([]*model.Collection, 10)
	for i := range results {
		wait.Go(func() { results[i], _ = c.Load(archived) })
	}
	wait.Wait()
	for _, result := range results {
		if result == nil || result != results[0] {
			t.Fatalf("got %p and %p", results[0], result)
		}
	}
}

// stalled is a list of the managers' pods that is not answered.
type stalled struct {
	client.Reader
	ended chan struct{}
}

func (s stalled) List(context.Context, client.ObjectList, ...client.ListOption) error {
	<-s.ended
	return context.Canceled
}

// A copy takes minutes at worst: all workers would wait for it.
func TestLoadDoesNotWaitForACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begin := newCollectionCache(t), time.Now()
		ended := make(chan struct{})
		defer close(ended)
		c.Peers = &replica.Peers{Reader: stalled{ended: ended}, Store: c.Store}
		_, err := c.Load(digest.FromString("elsewhere"))
		if waits := status.AsError(LoadFailure(err)); waits.Reason != v2beta2.ReasonProgressing || waits.RetryAfter != intervals.Poll || time.Since(begin) != pullWait {
			t.Errorf("got %+v after %s", waits, time.Since(begin))
		}
	})
}

func TestOutline(t *testing.T) {
	c := newCollectionCache(t)
	archived := c.store(t, "one", 10<<10)
	if _, err := c.Load(archived); err != nil {
		t.Fatal(err)
	}
	c.loaded.remove(archived)
	outline, err := c.Outline(archived)
	if err != nil || outline.ID() != (model.ID{Domain: "tests", Name: "one"}) || outline.APIVersion() != "v1minor0patch0" || len(outline.Resources) != 1 {
		t.Errorf("got %v, %v", outline, err)
	}
	if outline.Description != "" || c.loaded.get(archived) != nil {
		t.Error("the archive was loaded")
	}
	if err := c.Remove(archived); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Outline(archived); err == nil {
		t.Error("an archive that was removed is remembered")
	}
}

// What was forgotten while it was read may be damaged.
func TestForgottenWhileLoaded(t *testing.T) {
	c := newCollectionCache(t)
	archived := c.store(t, "one", 0)
	before := c.forgotten.Load()
	read, err := c.readInTurn(archived)
	if err != nil {
		t.Fatal(err)
	}
	c.forget(archived)
	if c.remember(archived, read, before); c.loaded.get(archived) != nil {
		t.Error("it is remembered")
	}
	if loaded, err := c.Load(archived); err != nil || loaded == read || c.loaded.get(archived) != loaded {
		t.Errorf("the next load: %v, %v", loaded, err)
	}
}
