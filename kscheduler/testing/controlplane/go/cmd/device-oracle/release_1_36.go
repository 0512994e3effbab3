//go:build !kubernetes_1_37

package main

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/api/resource/v1beta2"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	betalisters "k8s.io/client-go/listers/resource/v1beta2"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/dynamic-resource-allocation/structured"
)

type taintRule = v1beta2.DeviceTaintRule

func features(gates map[string]bool) structured.Features {
	return structured.Features{
		AdminAccess:            gates["DRAAdminAccess"],
		PrioritizedList:        gates["DRAPrioritizedList"],
		PartitionableDevices:   gates["DRAPartitionableDevices"],
		DeviceTaints:           gates["DRADeviceTaints"],
		DeviceBindingAndStatus: gates["DRADeviceBindingConditions"] && gates["DRAResourceClaimDeviceStatus"],
		ConsumableCapacity:     gates["DRAConsumableCapacity"],
		ListTypeAttributes:     gates["DRAListTypeAttributes"],
	}
}

func celFeatures(gates map[string]bool) cel.Features {
	return cel.Features{
		EnableConsumableCapacity: gates["DRAConsumableCapacity"],
		EnableListTypeAttributes: gates["DRAListTypeAttributes"],
	}
}

type stillSlices struct{ *still }

func (s stillSlices) Lister() resourcelisters.ResourceSliceLister {
	return resourcelisters.NewResourceSliceLister(s.indexer)
}

type stillRules struct{ *still }

func (s stillRules) Lister() betalisters.DeviceTaintRuleLister {
	return betalisters.NewDeviceTaintRuleLister(s.indexer)
}

type stillClasses struct{ *still }

func (s stillClasses) Lister() resourcelisters.DeviceClassLister {
	return resourcelisters.NewDeviceClassLister(s.indexer)
}

func trackerOptions(slices, rules *still) tracker.Options {
	return tracker.Options{
		EnableDeviceTaintRules:   true,
		EnableConsumableCapacity: true,
		SliceInformer:            stillSlices{slices},
		TaintInformer:            stillRules{rules},
		ClassInformer:            stillClasses{newStill([]*resourceapi.DeviceClass{})},
	}
}
