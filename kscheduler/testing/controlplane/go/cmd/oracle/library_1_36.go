//go:build !kubernetes_1_37

package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/api/resource/v1beta2"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// What kube-scheduler 1.36 offers as a library where 1.37 has it otherwise; library_1_37.go has the same functions.

type taintRule = v1beta2.DeviceTaintRule

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

// snapshotOptions gives a framework that is made by hand the snapshot that its plugins look at.
func snapshotOptions(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{frameworkruntime.WithSnapshotSharedLister(snapshot)}
}

// groupKey is what a group is known by among those of one attempt.
func groupKey(group fwk.PodGroupInfo) string { return group.GetNamespace() + "/" + group.GetName() }

// completePods sets what the apiserver sets in pods before it stores them, besides the defaults of their fields.
func completePods(_ []*v1.Pod) error { return nil }

// podEvents are the events that an update of a pod makes; isOwn: for the waiting pod itself.
func podEvents(newPod, oldPod *v1.Pod, _ bool) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(newPod, oldPod)
}

func deletePod(_ klog.Logger, queue internalqueue.SchedulingQueue, pod *v1.Pod) {
	queue.Delete(pod)
}

// popPod takes an active pod out of the queue as if its turn had come.
func popPod(logger klog.Logger, queue internalqueue.SchedulingQueue, pod *v1.Pod) (*framework.QueuedPodInfo, error) {
	queued := queue.PopSpecificPod(logger, pod)
	if queued == nil {
		return nil, fmt.Errorf("pod %s: expected it to be active, and it is not", pod.Name)
	}
	return queued, nil
}

func addUnschedulable(logger klog.Logger, queue internalqueue.SchedulingQueue, pod *framework.QueuedPodInfo) error {
	return queue.AddUnschedulableIfNotPresent(logger, pod, queue.SchedulingCycle())
}

// onPreempted makes the executor tell of victims instead of ending them.
func onPreempted(executor *preemption.Executor, tell func(victim *v1.Pod)) {
	executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor,
		victim *v1.Pod, _ string) error {
		tell(victim)
		return nil
	}
}

func (p *preemptionWatcher) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo, budgets []*policy.PodDisruptionBudget) ([]*v1.Pod, int, *fwk.Status) {
	victims, violations, why := p.Interface.SelectVictimsOnNode(ctx, state, pod, node, budgets)
	p.tellTried(node.Node().Name, victims, violations, why)
	return victims, violations, why
}
