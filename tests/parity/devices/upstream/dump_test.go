package allocatortesting_test

import (
	"context"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
	"k8s.io/dynamic-resource-allocation/structured/internal/experimental"
	"k8s.io/dynamic-resource-allocation/structured/internal/incubating"
)

// TestDump runs upstream's tables with the allocator that kube-scheduler chooses for the features of a case: by default
// the one called incubating.
func TestDump(t *testing.T) {
	newAllocator := func(
		ctx context.Context,
		features allocatortesting.Features,
		state allocatortesting.AllocatedState,
		classes allocatortesting.DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		cache *cel.Cache,
	) (internal.Allocator, error) {
		if incubating.SupportedFeatures.Set().IsSuperset(features.Set()) {
			return incubating.NewAllocator(ctx, features, state, classes, slices, cache)
		}
		return experimental.NewAllocator(ctx, features, state, classes, slices, cache)
	}
	allocatortesting.TestAllocator(t, experimental.SupportedFeatures, newAllocator)
	allocatortesting.TestLexicographicalAllocator(t, experimental.SupportedFeatures, newAllocator)
}
