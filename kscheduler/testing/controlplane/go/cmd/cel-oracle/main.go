// Cel-oracle answers what Kubernetes' own code for CEL selectors of devices says about expressions and devices.
//
// One request a line on standard input, one answer a line on standard output; requests know nothing of each other.
package main

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"kscheduler.test/controlplane/internal/jsonlines"
)

// request is an expression with the devices that it is asked about, or quantities to be computed with.
type request struct {
	Expression string     `json:"expression"`
	Devices    []device   `json:"devices"`
	Quantities [][]string `json:"quantities"`
}

// device is what an expression sees of a device; the names are those of the API.
type device struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
}

type answer struct {
	Error        string         `json:"error,omitempty"`        // of the request itself
	CompileError string         `json:"compileError,omitempty"` // if set, there are no verdicts
	Verdicts     []verdict      `json:"verdicts,omitempty"`     // one for each device
	Computed     []computedPair `json:"computed,omitempty"`     // one for each pair of quantities
}

type verdict struct {
	Matches bool   `json:"matches,omitempty"`
	Error   string `json:"error,omitempty"`
	Cost    uint64 `json:"cost"`
}

// computedPair is what can be said of two quantities. All texts are canonical.
type computedPair struct {
	Error string `json:"error,omitempty"` // the first text that is no quantity
	First string `json:"first,omitempty"`
	Sum   string `json:"sum,omitempty"`
	Diff  string `json:"diff,omitempty"`
	Cmp   int    `json:"cmp"`
	Value int64  `json:"value"`
	Int   *int64 `json:"int,omitempty"`
	Float string `json:"float,omitempty"`
}

func main() {
	jsonlines.Serve("cel-oracle", request.answer, func(problem string) answer { return answer{Error: problem} })
}

func (asked request) answer() (answer, error) {
	if asked.Quantities != nil {
		return answer{Computed: compute(asked.Quantities)}, nil
	}
	return judge(asked), nil
}

func judge(asked request) answer {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	compiled := compiler.CompileCELExpression(asked.Expression, cel.Options{DisableCostEstimation: true})
	if compiled.Error != nil {
		return answer{CompileError: compiled.Error.Error()}
	}
	verdicts := make([]verdict, 0, len(asked.Devices))
	for _, each := range asked.Devices {
		matches, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver:                   each.Driver,
			AllowMultipleAllocations: each.AllowMultipleAllocations,
			Attributes:               each.Attributes,
			Capacity:                 each.Capacity,
		})
		judged := verdict{Matches: matches}
		if err != nil {
			judged.Error = err.Error()
		}
		if details != nil {
			if cost := details.ActualCost(); cost != nil {
				judged.Cost = *cost
			}
		}
		verdicts = append(verdicts, judged)
	}
	return answer{Verdicts: verdicts}
}

func compute(pairs [][]string) []computedPair {
	computed := make([]computedPair, 0, len(pairs))
	for _, pair := range pairs {
		computed = append(computed, computePair(pair[0], pair[1]))
	}
	return computed
}

func computePair(first, second string) computedPair {
	a, err := resource.ParseQuantity(first)
	if err != nil {
		return computedPair{Error: err.Error()}
	}
	b, err := resource.ParseQuantity(second)
	if err != nil {
		return computedPair{Error: err.Error()}
	}
	found := computedPair{First: a.String(), Value: a.Value(), Float: fmt.Sprint(a.AsApproximateFloat64())}
	if number, ok := a.AsInt64(); ok {
		found.Int = &number
	}
	sum, diff := a.DeepCopy(), a.DeepCopy()
	sum.Add(b)
	diff.Sub(b)
	found.Sum, found.Diff = sum.String(), diff.String()
	found.Cmp = a.Cmp(b)
	return found
}
