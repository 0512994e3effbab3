//go:build kubernetes_1_37

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// gang lets the real scheduler decide the pending pods, all of one group, in one attempt, and sees what it does.
func (w *world) gang(asked *request) (*ganged, error) {
	// 1. Whatever is written is seen, and nothing fails.
	client := anyProfile(w.scheduler.Profiles).ClientSet().(*fake.Clientset)
	conditions, bound := make(chan clienttesting.PatchAction, 10), make(chan *v1.Binding, len(asked.Pending))
	client.PrependReactor("patch", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		conditions <- action.(clienttesting.PatchAction)
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
	if err := w.show(asked.Cluster.Pods, asked.Pending); err != nil { // else nominations of pending pods are ignored
		return nil, err
	}
	var executors []*preemption.Executor
	for _, profile := range w.scheduler.Profiles {
		if plugin := preemptionOf(profile); plugin != nil {
			onPreempted(plugin.Executor, func(victim *v1.Pod) { found.Ended = append(found.Ended, string(victim.UID)) })
			executors = append(executors, plugin.Executor)
		}
	}

	// 2. The group and its pods come as from the watch.
	current, shown := &schedulingapi.PodGroup{}, map[string][]metav1.Condition{}
	for _, raw := range asked.PodGroups {
		group := &schedulingapi.PodGroup{}
		if err := json.Unmarshal(raw, group); err != nil {
			return nil, err
		}
		if current.Name == "" { // the first is that of the pending pods
			current = group
		}
		shown[group.Name] = group.Status.Conditions
		w.scheduler.Cache.AddPodGroup(group)
		w.scheduler.SchedulingQueue.AddPodGroup(w.logger, group)
		event := fwk.ClusterEvent{Resource: fwk.PodGroup, ActionType: fwk.Add}
		w.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(w.logger, event, nil, group, nil)
	}
	root := current.UID
	for i, raw := range asked.CompositePodGroups {
		group := &schedulingv1alpha3.CompositePodGroup{}
		if err := json.Unmarshal(raw, group); err != nil {
			return nil, err
		}
		if i == 0 {
			root = group.UID
		}
		w.scheduler.Cache.AddCompositePodGroup(w.logger, group)
		w.scheduler.SchedulingQueue.AddCompositePodGroup(w.logger, group)
		event := fwk.ClusterEvent{Resource: fwk.CompositePodGroup, ActionType: fwk.Add}
		w.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(w.logger, event, nil, group, nil)
	}
	for _, pod := range asked.Pending {
		w.scheduler.Cache.AddPodGroupMember(pod)
		w.scheduler.SchedulingQueue.Add(w.ctx, pod)
		w.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(
			w.logger, framework.EventUnscheduledPodAdd, nil, pod, nil)
	}

	// 3. One attempt, if it is not held back: Pop would wait for it.
	active := w.scheduler.SchedulingQueue.PodsInActiveQ()
	if len(active) == 0 {
		return found, nil
	}
	found.IsTried = true
	w.scheduler.ScheduleOne(w.ctx)

	for _, executor := range executors {
		for executor.IsPodGroupRunningPreemption(root) {
			time.Sleep(20 * time.Microsecond)
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
	found.Conditions = map[string]*groupCondition{}
	for range len(conditions) { // those that are missing the objects say already
		patch := <-conditions
		name := patch.GetName()
		condition, err := patched(shown[name], schedulingapi.PodGroupInitiallyScheduled, patch.GetPatch())
		if err != nil {
			return nil, err
		}
		found.Conditions[name] = condition
	}
	if len(asked.CompositePodGroups) == 0 {
		found.Condition, found.Conditions = found.Conditions[current.Name], nil
	}
	return found, nil
}

// showGroups puts groups where preemption by single pods looks for those of its victims.
func (w *world) showGroups(groups []json.RawMessage) error {
	for _, raw := range groups {
		group := &schedulingapi.PodGroup{}
		if err := json.Unmarshal(raw, group); err != nil {
			return err
		}
		w.scheduler.Cache.AddPodGroup(group)
	}
	return w.scheduler.Cache.UpdateSnapshot(w.logger, w.snapshot)
}
