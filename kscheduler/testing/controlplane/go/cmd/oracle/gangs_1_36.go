//go:build !kubernetes_1_37

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// gang lets the real scheduler decide the pending pods, all of one group, in one attempt, and sees what it does.
func (w *world) gang(asked *request) (*ganged, error) {
	// 1. Whatever is written is seen, and nothing fails.
	client := anyProfile(w.scheduler.Profiles).ClientSet().(*fake.Clientset)
	conditions, bound := make(chan json.RawMessage, 10), make(chan *v1.Binding, len(asked.Pending))
	client.PrependReactor("patch", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		conditions <- action.(clienttesting.PatchAction).GetPatch()
		return true, &schedulingapi.PodGroup{}, nil
	})
	client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding)
		bound <- binding
		return true, binding, nil
	})
	found := &ganged{Pods: map[string]member{}, Claims: watchClaims(client)}
	var order []string
	w.scheduler.FailureHandler = func(_ context.Context, _ framework.Framework, info *framework.QueuedPodInfo,
		why *fwk.Status, nominating *fwk.NominatingInfo, _ time.Time) {
		order = append(order, info.Pod.Name)
		failed := member{Failure: why.Message(), IsRejected: why.IsRejected(), Code: why.Code().String()}
		if nominating != nil && nominating.Mode() == fwk.ModeOverride {
			failed.Nomination = &nominating.NominatedNodeName
		}
		found.Pods[info.Pod.Name] = failed
		w.scheduler.SchedulingQueue.Done(info.Pod.UID)
	}
	first, preemptsTogether := "", utilfeature.DefaultFeatureGate.Enabled(features.WorkloadAwarePreemption)
	schedule := w.scheduler.SchedulePod
	w.scheduler.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState,
		info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		if len(found.Order) == 0 {
			first = info.Pod.Name
		}
		if preemptsTogether && !hasPlacements() && info.Pod.Name == first { // the group is planned once more
			w.witness.tried = append(w.witness.tried, map[string][]string{})
		}
		found.Order = append(found.Order, info.Pod.Name)
		return schedule(ctx, profile, state, info)
	}
	if err := w.show(asked.Cluster.Pods, asked.Pending); err != nil { // preemption looks its preemptor up
		return nil, err
	}
	var executors []*preemption.Executor
	var ending sync.Mutex // several victims are ended at once, in any order
	tellEnded := func(victim *v1.Pod) {
		ending.Lock()
		defer ending.Unlock()
		found.Ended = append(found.Ended, string(victim.UID))
	}
	for _, profile := range w.scheduler.Profiles {
		if plugin := preemptionOf(profile); plugin != nil {
			onPreempted(plugin.Executor, tellEnded)
			executors = append(executors, plugin.Executor)
		}
	}

	// 2. The group and its pods come as from the watch. Of bound pods the cache knows their groups already.
	groups := make([]*schedulingapi.PodGroup, len(asked.PodGroups))
	for i, raw := range asked.PodGroups {
		groups[i] = &schedulingapi.PodGroup{}
		if err := json.Unmarshal(raw, groups[i]); err != nil {
			return nil, err
		}
	}
	if err := fill(w.factory.Scheduling().V1alpha2().PodGroups().Informer(), groups); err != nil {
		return nil, err
	}
	for _, group := range groups {
		event := fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add}
		w.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(w.logger, event, nil, group, nil)
	}
	for _, pod := range asked.Pending {
		w.scheduler.Cache.AddPodGroupMember(pod)
		w.scheduler.SchedulingQueue.Add(w.ctx, pod)
		w.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(
			w.logger, framework.EventUnscheduledPodAdd, nil, pod, nil)
	}

	// 3. One attempt, if no pod is held back: Pop would wait for one.
	active := w.scheduler.SchedulingQueue.PodsInActiveQ()
	if len(active) == 0 {
		return found, nil
	}
	found.IsTried = true
	w.scheduler.ScheduleOne(w.ctx)
	for _, executor := range executors {
		for _, pod := range asked.Pending {
			for executor.IsPodRunningPreemption(pod.UID) {
				time.Sleep(20 * time.Microsecond)
			}
		}
		for _, group := range groups {
			for executor.IsPodGroupRunningPreemption(group.UID) {
				time.Sleep(20 * time.Microsecond)
			}
		}
	}

	// 4. What became of it. The bindings run beside.
	found.Failed, found.Taken, found.Again = order, maps.Clone(w.witness.taken), maps.Clone(w.witness.again)
	for _, tried := range w.witness.tried {
		found.Tried = append(found.Tried, maps.Clone(tried))
	}
	isToBeBound := func(pod *v1.Pod) bool {
		_, failed := found.Pods[pod.Name]
		return !failed && pod.DeletionTimestamp == nil
	}
	patience := time.After(bindingPatience)
	for range slices.DeleteFunc(slices.Clone(active), func(pod *v1.Pod) bool { return !isToBeBound(pod) }) {
		select {
		case binding := <-bound:
			found.Pods[binding.Name] = member{Host: binding.Target.Name}
		case <-patience:
			return nil, fmt.Errorf("the pods that did not fail: expected them to be bound within %s", bindingPatience)
		}
	}
	select {
	case patch := <-conditions:
		condition, err := patched(groups[0].Status.Conditions, schedulingapi.PodGroupScheduled, patch)
		if err != nil {
			return nil, err
		}
		found.Condition = condition
	default: // the object says it already
	}
	return found, nil
}

// showGroups does nothing: preemption by single pods does not look at groups.
func (w *world) showGroups([]json.RawMessage) error { return nil }
