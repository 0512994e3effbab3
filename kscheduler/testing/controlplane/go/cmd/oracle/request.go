package main

import (
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
)

const (
	modeEvaluate = "evaluate" // every pending pod against the same cluster
	modeSequence = "sequence" // each pod that fits is assumed on its node, with its volumes, before the next
	modeHints    = "hints"    // every change: whom of the pending pods it wakes
	modePreempt  = "preempt"  // every pending pod that fits nowhere: whom it would preempt
	modeGang     = "gang"     // the pending pods are one group, decided together; needs the gate GenericWorkload
)

var modes = []string{modeEvaluate, modeSequence, modeHints, modePreempt, modeGang}

// request is a cluster and the pods to decide about, as the apiserver would give them but for its defaults.
type request struct {
	Mode    string    `json:"mode"`
	Config  string    `json:"config"` // a KubeSchedulerConfiguration, YAML or JSON
	Cluster cluster   `json:"cluster"`
	Pending []*v1.Pod `json:"pending"`

	// For hints.
	Rejectors []string `json:"rejectors"` // the plugins that may have rejected the pending pods
	Changes   []change `json:"changes"`

	// For a group.
	PodGroups          []json.RawMessage `json:"podGroups"`
	CompositePodGroups []json.RawMessage `json:"compositePodGroups"` // the first is the root of the pending pods
}

type cluster struct {
	Nodes                  []*v1.Node                      `json:"nodes"`
	Pods                   []*v1.Pod                       `json:"pods"`
	Nominated              []*v1.Pod                       `json:"nominated"` // pods that wait, and are not decided about
	Current                []*v1.Pod                       `json:"current"`   // for preempt: the pending pods by then; nil for the same
	Namespaces             []*v1.Namespace                 `json:"namespaces"`
	Services               []*v1.Service                   `json:"services"`
	ReplicationControllers []*v1.ReplicationController     `json:"replicationControllers"`
	ReplicaSets            []*appsv1.ReplicaSet            `json:"replicaSets"`
	StatefulSets           []*appsv1.StatefulSet           `json:"statefulSets"`
	PersistentVolumes      []*v1.PersistentVolume          `json:"persistentVolumes"`
	PersistentVolumeClaims []*v1.PersistentVolumeClaim     `json:"persistentVolumeClaims"`
	StorageClasses         []*storagev1.StorageClass       `json:"storageClasses"`
	CSINodes               []*storagev1.CSINode            `json:"csiNodes"`
	CSIDrivers             []*storagev1.CSIDriver          `json:"csiDrivers"`
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity `json:"csiStorageCapacities"`
	VolumeAttachments      []*storagev1.VolumeAttachment   `json:"volumeAttachments"`
	PodDisruptionBudgets   []*policyv1.PodDisruptionBudget `json:"podDisruptionBudgets"`

	devices
}

// store does to the objects what the apiserver does with them, as far as decisions go. It stores an amount in its
// canonical form: in another form ("1.5Gi") it is a pointer in memory, and what is added to a sum is added to the pod.
func (r *request) store() error {
	r.setDefaults()
	return firstError(
		completePods(r.Cluster.Pods), completePods(r.Cluster.Nominated), completePods(r.Cluster.Current),
		completePods(r.Pending), canonical(&r.Cluster.Nodes), canonical(&r.Cluster.Pods),
		canonical(&r.Cluster.Nominated), canonical(&r.Cluster.Current), canonical(&r.Pending), r.Cluster.devices.store(),
	)
}

func canonical[T any](objects *[]T) error {
	encoded, err := json.Marshal(*objects)
	if err != nil {
		return err
	}
	var stored []T
	if err := json.Unmarshal(encoded, &stored); err != nil {
		return err
	}
	*objects = stored
	return nil
}

func (r *request) setDefaults() {
	for _, node := range r.Cluster.Nodes {
		corev1.SetObjectDefaults_Node(node)
	}
	for _, pods := range [][]*v1.Pod{r.Cluster.Pods, r.Cluster.Nominated, r.Cluster.Current, r.Pending} {
		for _, pod := range pods {
			corev1.SetObjectDefaults_Pod(pod)
		}
	}
	for _, service := range r.Cluster.Services {
		corev1.SetObjectDefaults_Service(service)
	}
}

func (r *request) answer() (answer, error) {
	if !slices.Contains(modes, r.Mode) {
		return answer{}, fmt.Errorf("mode: expected one of %q, got %q", modes, r.Mode)
	}
	if err := r.store(); err != nil {
		return answer{}, err
	}
	world, err := newWorld(r.Config, &r.Cluster)
	if err != nil {
		return answer{}, err
	}
	defer world.stop()
	if r.Mode == modeHints {
		happened, err := world.hints(r)
		return answer{QueueOrder: []int{}, Changes: happened}, err
	}
	if r.Mode == modePreempt {
		preempted, err := world.preempt(r)
		return answer{NodeOrder: world.nodeOrder(), QueueOrder: []int{}, Preempted: preempted}, err
	}
	if r.Mode == modeGang {
		ganged, err := world.gang(r)
		return answer{QueueOrder: []int{}, Gang: ganged}, err
	}
	found := answer{NodeOrder: world.nodeOrder(), Plugins: world.plugins(), QueueOrder: world.queueOrder(r.Pending)}
	for _, pod := range r.Pending {
		decision, state := world.decide(pod)
		if r.Mode == modeSequence && decision.Host != "" {
			if err := world.assume(state, pod, decision.Host); err != nil {
				return answer{}, err
			}
		}
		found.Pods = append(found.Pods, decision)
	}
	return found, nil
}
