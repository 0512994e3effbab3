package main

import (
	"fmt"
	"reflect"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
)

// allocated is what the plugin DynamicResources would allocate to a pod on a node that passed its Filter.
type allocated struct {
	Results  []resourceapi.AllocationResult        `json:"results"`            // for each claim without an allocation
	Requests []resourceapi.DeviceRequest           `json:"requests,omitempty"` // of the claim for extended resources
	Mappings []v1.ContainerExtendedResourceRequest `json:"mappings,omitempty"` // which containers use which of these
}

// allocationsIn reads them out of the state of a cycle after Filter: node -> what would be allocated there. They are in
// fields that the plugin does not export.
func allocationsIn(state fwk.CycleState) (map[string]allocated, error) {
	data, err := state.Read(fwk.StateKey(dynamicresources.Name))
	if err != nil {
		return nil, nil // the plugin is not in the profile
	}
	byNode, err := hidden(reflect.ValueOf(data).Elem(), "nodeAllocations")
	if err != nil {
		return nil, err
	}
	found := map[string]allocated{}
	for nodes := byNode.MapRange(); nodes.Next(); {
		kept := reflect.New(byNode.Type().Elem()).Elem()
		kept.Set(nodes.Value())
		told, special := allocated{}, (*resourceapi.ResourceClaim)(nil)
		if err := firstError(
			readHidden(kept, "allocationResults", &told.Results),
			readHidden(kept, "containerResourceRequestMappings", &told.Mappings),
			readHidden(kept, "extendedResourceClaim", &special),
		); err != nil {
			return nil, err
		}
		if special != nil {
			told.Requests = special.Spec.Devices.Requests
		}
		found[nodes.Key().String()] = told
	}
	return found, nil
}

// hidden is a field of a struct, even if it is not exported.
func hidden(holder reflect.Value, name string) (reflect.Value, error) {
	field := holder.FieldByName(name)
	if !field.IsValid() {
		return field, fmt.Errorf("%s: expected a field %s, found none", holder.Type(), name)
	}
	return reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem(), nil
}

// readHidden copies a field that is not exported to where the target points.
func readHidden[T any](holder reflect.Value, name string, target *T) error {
	field, err := hidden(holder, name)
	if err != nil {
		return err
	}
	value, ok := field.Interface().(T)
	if !ok {
		return fmt.Errorf("%s: expected field %s to be a %T, got a %s", holder.Type(), name, *target, field.Type())
	}
	*target = value
	return nil
}
