package main

import (
	"encoding/json"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// change is something that happens to one object of the cluster; an object is null where there is none.
type change struct {
	Kind string          `json:"kind"`
	Old  json.RawMessage `json:"old"`
	New  json.RawMessage `json:"new"`
	Own  *int            `json:"own"` // the pending pod itself is updated: its position; it is New that changes it
}

// happened is an event that a change leads to, and whom it wakes.
type happened struct {
	Event  string           `json:"event"`
	Woken  map[string][]int `json:"woken"`  // plugin -> positions of the pending pods that wake, had it rejected them
	Faults map[string][]int `json:"faults"` // plugin -> positions of the pending pods for which its hint failed
}

// hints lets the real queue hold the pending pods, rejected by one plugin after the other, and sees who wakes.
func (w *world) hints(asked *request) ([][]happened, error) {
	// Of claims that change, kube-scheduler looks the pods up in the informer's store.
	if err := fill(w.factory.Core().V1().Pods().Informer(), asked.Pending); err != nil {
		return nil, err
	}
	found := [][]happened{}
	for i := range asked.Changes {
		events, err := w.happen(asked, &asked.Changes[i])
		if err != nil {
			return nil, fmt.Errorf("changes[%d]: %w", i, err)
		}
		found = append(found, events)
	}
	return found, nil
}

func (w *world) happen(asked *request, change *change) ([]happened, error) {
	if change.Own != nil {
		return w.updateWaiting(asked, *change.Own, change.New)
	}
	oldObject, newObject, events, err := read(change)
	if err != nil {
		return nil, err
	}
	found := []happened{}
	for _, event := range events {
		told := happened{Event: event.Label(), Woken: map[string][]int{}, Faults: map[string][]int{}}
		for _, plugin := range asked.Rejectors {
			for _, pod := range asked.Pending {
				if err := w.reject(pod, plugin); err != nil {
					return nil, err
				}
			}
			w.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(w.logger, event, oldObject, newObject, nil)
			told.Woken[plugin] = w.takeWoken(asked.Pending)
			for position, pod := range asked.Pending {
				if w.fails(plugin, event, pod, oldObject, newObject) {
					told.Faults[plugin] = append(told.Faults[plugin], position)
				}
			}
		}
		found = append(found, told)
	}
	return found, nil
}

func (w *world) updateWaiting(asked *request, position int, raw json.RawMessage) ([]happened, error) {
	pod := asked.Pending[position]
	updated, err := readPod(raw)
	if err != nil {
		return nil, err
	}
	var labels []string
	for _, event := range podEvents(updated, pod, true) {
		labels = append(labels, event.Label())
	}
	told := happened{Event: strings.Join(labels, " "), Woken: map[string][]int{}, Faults: map[string][]int{}}
	for _, plugin := range asked.Rejectors {
		if err := w.reject(pod, plugin); err != nil {
			return nil, err
		}
		w.scheduler.SchedulingQueue.Update(w.ctx, pod, updated)
		if woken := w.takeWoken([]*v1.Pod{updated}); len(woken) > 0 {
			told.Woken[plugin] = []int{position}
		}
	}
	return []happened{told}, nil
}

// reject puts the pod into the queue as one that the plugin has rejected; a gated pod stays where its gate holds it, also
// where a plugin does so.
func (w *world) reject(pod *v1.Pod, plugin string) error {
	queue := w.scheduler.SchedulingQueue
	queue.Add(w.ctx, pod)
	if len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	for _, gated := range queue.UnschedulablePods() {
		if gated.UID == pod.UID {
			return nil
		}
	}
	queued, err := popPod(w.logger, queue, pod) // nominated pods may be waiting beside it
	if err != nil {
		return err
	}
	queued.UnschedulablePlugins = sets.New(plugin)
	return addUnschedulable(w.logger, queue, queued)
}

// takeWoken empties the queue of the pods and tells which of them did not wait any more.
func (w *world) takeWoken(pods []*v1.Pod) []int {
	waiting := sets.New[types.UID]()
	for _, pod := range w.scheduler.SchedulingQueue.UnschedulablePods() {
		waiting.Insert(pod.UID)
	}
	woken := []int{}
	for position, pod := range pods {
		if !waiting.Has(pod.UID) {
			woken = append(woken, position)
		}
		deletePod(w.logger, w.scheduler.SchedulingQueue, pod)
	}
	return woken
}

// fails says whether a hint of the plugin about this event ends in an error, which wakes the pod.
func (w *world) fails(plugin string, event fwk.ClusterEvent, pod *v1.Pod, oldObject, newObject any) bool {
	for _, extension := range w.scheduler.Profiles[pod.Spec.SchedulerName].EnqueueExtensions() {
		if extension.Name() != plugin {
			continue
		}
		registered, _ := extension.EventsToRegister(w.ctx)
		for _, wish := range registered {
			if wish.QueueingHintFn == nil || !framework.MatchClusterEvents(wish.Event, event) {
				continue
			}
			if _, err := wish.QueueingHintFn(w.logger, pod, oldObject, newObject); err != nil {
				return true
			}
		}
	}
	return false
}

// read gives the objects as the scheduler's handlers have them, and the events they report.
func read(change *change) (oldObject, newObject any, events []fwk.ClusterEvent, err error) {
	switch change.Kind {
	case "Pod":
		before, after, err := readBoth(change, readPod)
		if err != nil {
			return nil, nil, nil, err
		}
		switch {
		case before == nil:
			return nil, after, []fwk.ClusterEvent{framework.EventAssignedPodAdd}, nil
		case after == nil:
			return before, nil, []fwk.ClusterEvent{framework.EventAssignedPodDelete}, nil
		}
		return before, after, podEvents(after, before, false), nil
	case "Node":
		before, after, err := readBoth(change, readNode)
		if err == nil && before != nil && after != nil {
			return before, after, framework.NodeSchedulingPropertiesChange(after, before), nil
		}
		return plain(fwk.Node, before, after, err)
	case "PersistentVolume":
		before, after, err := readBoth(change, readAny[v1.PersistentVolume])
		return plain(fwk.PersistentVolume, before, after, err)
	case "PersistentVolumeClaim":
		before, after, err := readBoth(change, readAny[v1.PersistentVolumeClaim])
		return plain(fwk.PersistentVolumeClaim, before, after, err)
	case "StorageClass":
		before, after, err := readBoth(change, readAny[storagev1.StorageClass])
		return plain(fwk.StorageClass, before, after, err)
	case "CSINode":
		before, after, err := readBoth(change, readAny[storagev1.CSINode])
		return plain(fwk.CSINode, before, after, err)
	case "CSIDriver":
		before, after, err := readBoth(change, readAny[storagev1.CSIDriver])
		return plain(fwk.CSIDriver, before, after, err)
	case "CSIStorageCapacity":
		before, after, err := readBoth(change, readAny[storagev1.CSIStorageCapacity])
		return plain(fwk.CSIStorageCapacity, before, after, err)
	case "VolumeAttachment":
		before, after, err := readBoth(change, readAny[storagev1.VolumeAttachment])
		return plain(fwk.VolumeAttachment, before, after, err)
	case "ResourceClaim":
		before, after, err := readBoth(change, readAny[resourceapi.ResourceClaim])
		return plain(fwk.ResourceClaim, before, after, err)
	case "ResourceSlice":
		before, after, err := readBoth(change, readAny[resourceapi.ResourceSlice])
		return plain(fwk.ResourceSlice, before, after, err)
	case "DeviceClass":
		before, after, err := readBoth(change, readAny[resourceapi.DeviceClass])
		return plain(fwk.DeviceClass, before, after, err)
	}
	return nil, nil, nil, fmt.Errorf("kind: %q is not known", change.Kind)
}

// plain is an event whose action follows from which objects there are.
func plain[T any](resource fwk.EventResource, before, after *T, fault error) (any, any, []fwk.ClusterEvent, error) {
	switch {
	case fault != nil:
		return nil, nil, nil, fault
	case before == nil && after == nil:
		return nil, nil, nil, fmt.Errorf("expected an object before or after, got none")
	case before == nil:
		return nil, after, []fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Add}}, nil
	case after == nil:
		return before, nil, []fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Delete}}, nil
	}
	return before, after, []fwk.ClusterEvent{{Resource: resource, ActionType: fwk.Update}}, nil
}

func readBoth[T any](change *change, one func(json.RawMessage) (*T, error)) (before, after *T, err error) {
	if before, err = one(change.Old); err == nil {
		after, err = one(change.New)
	}
	return before, after, err
}

func readAny[T any](raw json.RawMessage) (*T, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	found := new(T)
	return found, json.Unmarshal(raw, found)
}

func readPod(raw json.RawMessage) (*v1.Pod, error) {
	pod, err := readAny[v1.Pod](raw)
	if pod == nil || err != nil {
		return nil, err
	}
	corev1.SetObjectDefaults_Pod(pod)
	pods := []*v1.Pod{pod}
	err = firstError(completePods(pods), canonical(&pods))
	return pods[0], err
}

func readNode(raw json.RawMessage) (*v1.Node, error) {
	node, err := readAny[v1.Node](raw)
	if node == nil || err != nil {
		return nil, err
	}
	corev1.SetObjectDefaults_Node(node)
	return node, nil
}
