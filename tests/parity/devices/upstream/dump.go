package allocatortesting

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
)

// The environment of a dump: where it goes, and the features that are on by default, as JSON.
const (
	dumpTo          = "TABLES_TO"
	defaultFeatures = "TABLES_FEATURES"
)

type dumpedCase struct {
	Name      string                       `json:"name"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Node      *v1.Node                     `json:"node"`
	Allocated [][]string                   `json:"allocated"` // driver, pool, device
	Shares    [][]string                   `json:"shares"`    // driver, pool, device, share id
	Consumed  []dumpedCapacity             `json:"consumed"`
	Features  []string                     `json:"features"` // feature gates that the case needs
	Own       dumpedDecision               `json:"own"`      // with just those features
	Default   dumpedDecision               `json:"default"`  // with those that are on by default
}

type dumpedCapacity struct {
	Device   []string                  `json:"device"`
	Capacity internal.ConsumedCapacity `json:"capacity"`
}

type dumpedDecision struct {
	Results    []resourceapi.AllocationResult `json:"results,omitempty"`
	NoSolution bool                           `json:"noSolution,omitempty"`
	Failure    string                         `json:"failure,omitempty"`
	IsFatal    bool                           `json:"isFatal,omitempty"`
	Panic      string                         `json:"panic,omitempty"`
	Steps      int64                          `json:"steps"`
}

// tableClasses gives device classes as an informer's lister would; upstream's for tests has another text for an unknown one.
type tableClasses []*resourceapi.DeviceClass

func (l tableClasses) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l tableClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}

// RunTestAllocator has the place of upstream's function of that name, which runs a table of cases: it writes each case,
// with what the allocator answers, after upstream's has accepted that answer.
func RunTestAllocator(t *testing.T,
	supportedFeatures Features,
	newAllocator func(
		ctx context.Context,
		features Features,
		allocateState AllocatedState,
		classLister DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		celCache *cel.Cache,
	) (Allocator, error),
	testcases map[string]AllocatorTestCase) {
	upstreamsRunTestAllocator(t, supportedFeatures, newAllocator, testcases)

	file, err := os.OpenFile(os.Getenv(dumpTo), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	out := bufio.NewWriter(file)
	var byDefault Features
	if err := json.Unmarshal([]byte(os.Getenv(defaultFeatures)), &byDefault); err != nil {
		t.Fatal(err)
	}
	decide := func(tc AllocatorTestCase, features Features) (made dumpedDecision) {
		defer func() {
			if fault := recover(); fault != nil {
				made = dumpedDecision{Panic: fmt.Sprint(fault)}
			}
		}()
		ctx := context.Background()
		state := AllocatedState{
			AllocatedDevices:         sets.New(tc.allocatedDevices...),
			AllocatedSharedDeviceIDs: tc.allocatedSharedDeviceIDs,
			AggregatedCapacity:       tc.allocatedCapacityDevices.Clone(),
		}
		cache := cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: features.ConsumableCapacity,
			EnableListTypeAttributes: features.ListTypeAttributes,
		})
		classes := tableClasses(tc.classes)
		allocator, err := newAllocator(ctx, features, state, classes, slices.Clone(tc.slices), cache)
		if err != nil {
			return dumpedDecision{Failure: err.Error(), IsFatal: true}
		}
		results, err := allocator.Allocate(ctx, tc.node, unwrap(tc.claimsToAllocate...))
		made.Steps = allocator.(internal.AllocatorExtended).GetStats().NumAllocateOneInvocations
		switch {
		case err != nil:
			made.Failure, made.IsFatal = err.Error(), !errors.Is(err, internal.ErrFailedAllocationOnNode)
		case len(results) == 0:
			made.NoSolution = true
		default:
			made.Results = results
		}
		return made
	}
	names := make([]string, 0, len(testcases))
	for name := range testcases {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		tc := testcases[name]
		if tc.node == nil {
			tc.node = node(node1, region1)
		}
		made := dumpedCase{
			Name:     name,
			Claims:   unwrap(tc.claimsToAllocate...),
			Classes:  tc.classes,
			Slices:   tc.slices,
			Node:     tc.node,
			Features: sets.List(tc.features.Set()),
			Own:      decide(tc, tc.features),
			Default:  decide(tc, byDefault),
		}
		for _, id := range tc.allocatedDevices {
			made.Allocated = append(made.Allocated, []string{id.Driver.String(), id.Pool.String(), id.Device.String()})
		}
		for id := range tc.allocatedSharedDeviceIDs {
			share := []string{id.Driver.String(), id.Pool.String(), id.Device.String(), id.ShareID.String()}
			made.Shares = append(made.Shares, share)
		}
		for id, capacity := range tc.allocatedCapacityDevices {
			device := []string{id.Driver.String(), id.Pool.String(), id.Device.String()}
			made.Consumed = append(made.Consumed, dumpedCapacity{Device: device, Capacity: capacity})
		}
		encoded, err := json.Marshal(made)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := out.Write(append(encoded, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
}
