package allocatortesting_test

import (
	"context"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/dynamic-resource-allocation/structured/internal/incubating"
)

// TestDump runs upstream's tables with the allocator that kube-scheduler has by default.
func TestDump(t *testing.T) {
	newAllocator := func(
		ctx context.Context,
		features allocatortesting.Features,
		state allocatortesting.AllocatedState,
		classes allocatortesting.DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		cache *cel.Cache,
	) (internal.Allocator, error) {
		return incubating.NewAllocator(ctx, features, state, classes, slices, cache)
	}
	allocatortesting.TestAllocator(t, incubating.SupportedFeatures, newAllocator)
	allocatortesting.TestLexicographicalAllocator(t, incubating.SupportedFeatures, newAllocator)
}
