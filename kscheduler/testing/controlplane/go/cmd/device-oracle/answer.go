package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// expressionsKept is more than kube-scheduler keeps, since here many clusters follow each other.
const expressionsKept = 300

// compiled keeps compiled expressions from request to request.
var compiled = map[cel.Features]*cel.Cache{}

func celCache(gates map[string]bool) *cel.Cache {
	of := celFeatures(gates)
	if compiled[of] == nil {
		compiled[of] = cel.NewCache(expressionsKept, of)
	}
	return compiled[of]
}

type answer struct {
	Error string       `json:"error,omitempty"` // of the request itself
	Pods  [][]decision `json:"pods,omitempty"`  // for each pending pod, one for each node
}

// decision is about a pod's claims on a node: exactly one of results, failure, panic and noSolution is set.
type decision struct {
	Results    []resourceapi.AllocationResult `json:"results,omitempty"` // one for each claim
	NoSolution bool                           `json:"noSolution,omitempty"`
	Failure    string                         `json:"failure,omitempty"` // the text of Allocate's error
	IsFatal    bool                           `json:"isFatal,omitempty"` // the failure ends the pod's cycle, not just this node
	Panic      string                         `json:"panic,omitempty"`
	Steps      int64                          `json:"steps"` // calls of the search's innermost function
}

// lister gives device classes as an informer's lister would.
type lister []*resourceapi.DeviceClass

func (l lister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l lister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

func (r *request) answer() (answer, error) {
	if err := r.store(); err != nil {
		return answer{}, err
	}
	slices := r.Cluster.ResourceSlices
	if r.Gates["DRADeviceTaintRules"] && len(r.Cluster.DeviceTaintRules) > 0 {
		tainted, err := withTaints(slices, r.Cluster.DeviceTaintRules)
		if err != nil {
			return answer{}, fmt.Errorf("taint rules: %w", err)
		}
		slices = tainted
	}
	var found answer
	allocated := r.Cluster.Allocated
	for _, pod := range r.Pending {
		decisions, err := r.decide(pod, slices, allocated)
		if err != nil {
			return answer{}, err
		}
		found.Pods = append(found.Pods, decisions)
		if r.Sequence {
			allocated = append(allocated, chosen(decisions)...)
		}
	}
	return found, nil
}

// chosen gives the devices of the first node where a pod's claims can be allocated.
func chosen(decisions []decision) []resourceapi.DeviceRequestAllocationResult {
	for _, each := range decisions {
		if each.Results == nil {
			continue
		}
		var devices []resourceapi.DeviceRequestAllocationResult
		for _, result := range each.Results {
			devices = append(devices, result.Devices.Results...)
		}
		return devices
	}
	return nil
}

// decide asks one allocator about all nodes, as the plugin does in a pod's cycle.
func (r *request) decide(
	pod pod, slices []*resourceapi.ResourceSlice, allocated []resourceapi.DeviceRequestAllocationResult,
) ([]decision, error) {
	ctx := context.Background()
	allocator, err := structured.NewAllocator(
		ctx, features(r.Gates), r.state(allocated), lister(r.Cluster.DeviceClasses), slices, celCache(r.Gates),
	)
	if err != nil {
		return nil, err
	}
	found := []decision{} // not null in JSON, should there be no nodes
	var before int64
	for _, node := range r.Cluster.Nodes {
		each := allocate(ctx, allocator, node, pod.Claims, time.Duration(r.TimeoutMS)*time.Millisecond)
		steps := stepsOf(allocator)
		each.Steps, before = steps-before, steps
		found = append(found, each)
	}
	return found, nil
}

func allocate(
	ctx context.Context, allocator structured.Allocator, node *v1.Node, claims []*resourceapi.ResourceClaim, timeout time.Duration,
) (found decision) {
	defer func() {
		if fault := recover(); fault != nil {
			found = decision{Panic: fmt.Sprint(fault)}
		}
	}()
	if timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	results, err := allocator.Allocate(ctx, node, claims)
	switch {
	case err != nil:
		return decision{Failure: err.Error(), IsFatal: !errors.Is(err, structured.ErrFailedAllocationOnNode)}
	case len(results) == 0:
		return decision{NoSolution: true}
	}
	return decision{Results: results}
}

// stepsOf reads the allocator's own count since it was made. Its type is internal to upstream's package.
func stepsOf(allocator structured.Allocator) int64 {
	stats := reflect.ValueOf(allocator).MethodByName("GetStats")
	if !stats.IsValid() {
		return 0
	}
	return stats.Call(nil)[0].FieldByName("NumAllocateOneInvocations").Int()
}
