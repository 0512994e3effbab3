package main

import (
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// request is a cluster and the pods to decide about. The objects are as the apiserver stores them, defaults included.
type request struct {
	Gates   map[string]bool `json:"gates"` // all that concern devices, by name; what is absent is off
	Cluster cluster         `json:"cluster"`
	Pending []pod           `json:"pending"`

	// TimeoutMS ends a search; a pod's decision then has an error that begins with "filter operation aborted".
	TimeoutMS int64 `json:"timeoutMs"`
	// Sequence: a pod's claims stay allocated on the first node where they can be, for the pods after it.
	Sequence bool `json:"sequence"`
}

type cluster struct {
	Nodes            []*v1.Node                                  `json:"nodes"`
	DeviceClasses    []*resourceapi.DeviceClass                  `json:"deviceClasses"`
	ResourceSlices   []*resourceapi.ResourceSlice                `json:"resourceSlices"`
	DeviceTaintRules []*taintRule                                `json:"deviceTaintRules"`
	Allocated        []resourceapi.DeviceRequestAllocationResult `json:"allocated"` // results of all allocated claims
}

// pod is one whose claims are to be allocated together.
type pod struct {
	Claims []*resourceapi.ResourceClaim `json:"claims"`
}

// store does with the objects what the apiserver does, as far as decisions go: amounts get their canonical form.
func (r *request) store() error {
	return errors.Join(
		canonical(&r.Cluster.Nodes), canonical(&r.Cluster.DeviceClasses), canonical(&r.Cluster.ResourceSlices),
		canonical(&r.Cluster.Allocated), canonical(&r.Pending),
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

// state sums up allocated devices as the scheduler does.
func (r *request) state(results []resourceapi.DeviceRequestAllocationResult) structured.AllocatedState {
	found := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, result := range results {
		if ptr.Deref(result.AdminAccess, false) {
			continue
		}
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if !r.Gates["DRAConsumableCapacity"] || result.ShareID == nil {
			found.AllocatedDevices.Insert(id)
			continue
		}
		found.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
		if result.ConsumedCapacity != nil {
			found.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		}
	}
	return found
}
