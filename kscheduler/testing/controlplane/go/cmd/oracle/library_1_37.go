//go:build kubernetes_1_37

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// What kube-scheduler 1.37 offers as a library where 1.36 has it otherwise; library_1_36.go has the same functions.

type taintRule = resourceapi.DeviceTaintRule

func newInformerFactory(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

// snapshotOptions gives a framework that is made by hand the snapshot that its plugins look at.
func snapshotOptions(snapshot *internalcache.Snapshot) []frameworkruntime.Option {
	return []frameworkruntime.Option{
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithMutableSnapshotLister(snapshot), // preemption looks at this one
	}
}

// groupKey is what a group is known by among those of one attempt.
func groupKey(group fwk.PodGroupInfo) string { return group.GetKey() }

// completePods sets what the apiserver sets in pods before it stores them, besides the defaults of their fields:
// pod-level requests and limits, once webhooks have added their containers.
func completePods(pods []*v1.Pod) error {
	for _, pod := range pods {
		if pod.Spec.Resources == nil {
			continue
		}
		internal, completed := &core.Pod{}, &v1.Pod{}
		if err := corev1.Convert_v1_Pod_To_core_Pod(pod.DeepCopy(), internal, nil); err != nil {
			return err
		}
		podutil.DefaultPodLevelResources(internal)
		if err := corev1.Convert_core_Pod_To_v1_Pod(internal, completed, nil); err != nil {
			return err
		}
		pod.Spec.Resources = completed.Spec.Resources
	}
	return nil
}

// podEvents are the events that an update of a pod makes; isOwn: for the waiting pod itself.
func podEvents(newPod, oldPod *v1.Pod, isOwn bool) []fwk.ClusterEvent {
	return framework.PodSchedulingPropertiesChange(newPod, oldPod, isOwn)
}

func deletePod(logger klog.Logger, queue internalqueue.SchedulingQueue, pod *v1.Pod) {
	queue.Delete(logger, pod)
}

// popPod takes an active pod out of the queue as if its turn had come, and those before it, which stay out.
func popPod(logger klog.Logger, queue internalqueue.SchedulingQueue, pod *v1.Pod) (*framework.QueuedPodInfo, error) {
	isWanted := func(other *v1.Pod) bool { return other.UID == pod.UID }
	if !slices.ContainsFunc(queue.PodsInActiveQ(), isWanted) { // Pop would wait for it
		return nil, fmt.Errorf("pod %s: expected it to be active, and it is not", pod.Name)
	}
	for {
		entity, err := queue.Pop(logger)
		if err != nil {
			return nil, err
		}
		queued, ok := entity.(*framework.QueuedPodInfo)
		if !ok {
			return nil, fmt.Errorf("the queue: expected a pod, got %T", entity)
		}
		if isWanted(queued.Pod) {
			return queued, nil
		}
		queue.Done(queued.Pod.UID)
	}
}

func addUnschedulable(logger klog.Logger, queue internalqueue.SchedulingQueue, pod *framework.QueuedPodInfo) error {
	return queue.AddUnschedulablePodIfNotPresent(logger, pod, queue.SchedulingCycle())
}

// onPreempted makes the executor tell of victims instead of ending them.
func onPreempted(executor *preemption.Executor, tell func(victim *v1.Pod)) {
	executor.PreemptPod = func(_ context.Context, _ preemption.Candidate, _ preemption.ExecutorPreemptor,
		victim *v1.Pod, _ string) (bool, error) {
		tell(victim)
		return false, nil
	}
}

func (p *preemptionWatcher) SelectVictimsOnNode(ctx context.Context, state fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo, possible []*preemption.DomainVictim, budgets []*policy.PodDisruptionBudget,
) ([]*v1.Pod, int, *fwk.Status) {
	// A victim uses up no budget behind the first that it overdraws, and the lister gives them in the order of a map.
	slices.SortFunc(budgets, func(one, other *policy.PodDisruptionBudget) int {
		return strings.Compare(one.Namespace+"/"+one.Name, other.Namespace+"/"+other.Name)
	})
	victims, violations, why := p.Interface.SelectVictimsOnNode(ctx, state, pod, node, possible, budgets)
	p.tellTried(node.Node().Name, victims, violations, why)
	return victims, violations, why
}
