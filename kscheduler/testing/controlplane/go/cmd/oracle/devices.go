package main

import (
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	resourcev1 "k8s.io/kubernetes/pkg/apis/resource/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// devices are the objects of dynamic resource allocation. What the scheduler knows of claims and slices it learns from
// events, so the informers of their kinds are still ones, which deliver all objects once.
type devices struct {
	ResourceClaims   []*resourceapi.ResourceClaim `json:"resourceClaims"`
	ResourceSlices   []*resourceapi.ResourceSlice `json:"resourceSlices"`
	DeviceClasses    []*resourceapi.DeviceClass   `json:"deviceClasses"`
	DeviceTaintRules []*taintRule                 `json:"deviceTaintRules"`
}

// store does with the objects what the apiserver does, as far as decisions go.
func (d *devices) store() error {
	for _, claim := range d.ResourceClaims {
		resourcev1.SetObjectDefaults_ResourceClaim(claim)
	}
	for _, slice := range d.ResourceSlices {
		resourcev1.SetObjectDefaults_ResourceSlice(slice)
	}
	return firstError(canonical(&d.ResourceClaims), canonical(&d.ResourceSlices),
		canonical(&d.DeviceClasses), canonical(&d.DeviceTaintRules))
}

// stillDevices has the still informers of one factory.
type stillDevices struct {
	claims, slices, classes, rules *still
}

// newStillDevices puts still informers into a factory, which gives them to all who ask for those kinds.
func newStillDevices(factory informers.SharedInformerFactory) stillDevices {
	return stillDevices{
		claims:  keepStill(factory, &resourceapi.ResourceClaim{}),
		slices:  keepStill(factory, &resourceapi.ResourceSlice{}),
		classes: keepStill(factory, &resourceapi.DeviceClass{}),
		rules:   keepStill(factory, &taintRule{}),
	}
}

// deliver fills the informers' stores, then tells the handlers of every object.
func (s stillDevices) deliver(d *devices) error {
	if err := firstError(
		fill(s.rules, d.DeviceTaintRules), fill(s.classes, d.DeviceClasses),
		fill(s.slices, d.ResourceSlices), fill(s.claims, d.ResourceClaims),
	); err != nil {
		return err
	}
	tell(s.rules, d.DeviceTaintRules)
	tell(s.classes, d.DeviceClasses)
	tell(s.slices, d.ResourceSlices)
	tell(s.claims, d.ResourceClaims)
	return nil
}

// tell tells an informer's handlers of objects in their order, which matters for classes of one extended resource.
func tell[T any](informer *still, objects []T) {
	for _, handler := range informer.handlers {
		for _, object := range objects {
			handler.OnAdd(object, true)
		}
	}
}

// agreeable is a client for which every write to a claim succeeds, and changes nothing.
func agreeable() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return true, action.(clienttesting.UpdateAction).GetObject(), nil
	})
	client.PrependReactor("delete", "resourceclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, nil
	})
	return client
}

// takenBack are the claims, as namespace/name, that PostFilter has deallocated or deleted.
func takenBack(actions []clienttesting.Action) (deallocated, deleted []string) {
	for _, action := range actions {
		if action.GetResource().Resource != "resourceclaims" {
			continue
		}
		switch action := action.(type) {
		case clienttesting.UpdateAction:
			claim := action.GetObject().(*resourceapi.ResourceClaim)
			if action.GetSubresource() == "status" {
				deallocated = append(deallocated, claim.Namespace+"/"+claim.Name)
			}
		case clienttesting.DeleteAction:
			deleted = append(deleted, action.GetNamespace()+"/"+action.GetName())
		}
	}
	return deallocated, deleted
}

// repetitions is how often PostFilter is asked which claim it takes back. It takes the first in the order of a map, which
// begins at one of eight places at random: a claim of up to eight is missed once in 10^23 times.
const repetitions = 400

// unavailableClaims points to the places of a pod's claims that Filter has found to be out of reach, of which PostFilter
// takes back one; nil without the plugin.
func unavailableClaims(state fwk.CycleState) (*sets.Set[int], error) {
	data, err := state.Read(fwk.StateKey(dynamicresources.Name))
	if err != nil {
		return nil, nil
	}
	field, err := hidden(reflect.ValueOf(data).Elem(), "unavailableClaims")
	if err != nil {
		return nil, err
	}
	found, ok := field.Addr().Interface().(*sets.Set[int])
	if !ok {
		return nil, fmt.Errorf("unavailableClaims: expected a %T, got a %s", found, field.Type())
	}
	return found, nil
}

// allTakenBack are the claims, as namespace/name, of which PostFilter deallocates or deletes any one.
func (w *world) allTakenBack(pod *v1.Pod, state fwk.CycleState, statuses fwk.NodeToStatusReader,
	client *fake.Clientset) []string {
	plugin, ok := w.twins[pod.Spec.SchedulerName].made[dynamicresources.Name].(fwk.PostFilterPlugin)
	if !ok {
		return nil
	}
	found := sets.New[string]()
	for range repetitions {
		client.ClearActions()
		plugin.PostFilter(w.ctx, state, pod, statuses)
		deallocated, deleted := takenBack(client.Actions())
		found.Insert(deallocated...)
		found.Insert(deleted...)
	}
	return sets.List(found)
}

// still is an informer that never starts. It has only what the scheduler uses before it runs; all other methods are
// those of a nil interface.
type still struct {
	cache.SharedIndexInformer
	indexer  cache.Indexer
	handlers []cache.ResourceEventHandler
}

func keepStill(factory informers.SharedInformerFactory, kind runtime.Object) *still {
	made := &still{indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	factory.InformerFor(kind, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer { return made })
	return made
}

func (s *still) GetIndexer() cache.Indexer { return s.indexer }

func (s *still) GetStore() cache.Store { return s.indexer }

func (s *still) AddIndexers(indexers cache.Indexers) error { return s.indexer.AddIndexers(indexers) }

func (s *still) HasSynced() bool { return true }

func (s *still) HasSyncedChecker() cache.DoneChecker { return synced{} }

func (s *still) SetTransform(cache.TransformFunc) error { return nil }

func (s *still) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (s *still) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, cache.HandlerOptions{})
}

func (s *still) AddEventHandlerWithOptions(
	handler cache.ResourceEventHandler, _ cache.HandlerOptions,
) (cache.ResourceEventHandlerRegistration, error) {
	s.handlers = append(s.handlers, handler)
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
