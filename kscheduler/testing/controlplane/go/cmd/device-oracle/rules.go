package main

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
)

// withTaints returns the slices with the taints of the rules on their devices, as upstream's tracker applies them. They
// keep their order.
func withTaints(given []*resourceapi.ResourceSlice, rules []*taintRule) ([]*resourceapi.ResourceSlice, error) {
	ofSlices, ofRules := newStill(given), newStill(rules)
	running, err := tracker.StartTracker(context.Background(), trackerOptions(ofSlices, ofRules))
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	for _, slice := range given {
		ofSlices.handler.OnAdd(slice, true)
	}
	patched, err := running.ListPatchedResourceSlices()
	if err != nil {
		return nil, err
	}
	position := make(map[string]int, len(given))
	for i, slice := range given {
		position[slice.Name] = i
	}
	slices.SortFunc(patched, func(a, b *resourceapi.ResourceSlice) int { return position[a.Name] - position[b.Name] })
	return patched, nil
}

// still is an informer whose objects never change. It calls no handler by itself, and has only what the tracker uses;
// all other methods are those of a nil interface.
type still struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
	handler cache.ResourceEventHandler
}

func newStill[T runtime.Object](objects []T) *still {
	made := &still{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	for _, object := range objects {
		if err := made.indexer.Add(object); err != nil {
			panic(err) // objects without metadata
		}
	}
	return made
}

func (s *still) Informer() cache.SharedIndexInformer { return s }

func (s *still) GetIndexer() cache.Indexer { return s.indexer }

func (s *still) AddIndexers(indexers cache.Indexers) error { return s.indexer.AddIndexers(indexers) }

func (s *still) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (s *still) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	s.handler = handler
	return synced{}, nil
}

func (s *still) RemoveEventHandler(cache.ResourceEventHandlerRegistration) error { return nil }

// synced is a registration of a handler that has seen everything.
type synced struct{}

func (synced) HasSynced() bool { return true }

func (synced) HasSyncedChecker() cache.DoneChecker { return synced{} }

func (synced) Name() string { return "still" }

func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
