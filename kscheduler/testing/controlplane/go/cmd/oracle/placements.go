package main

import (
	"context"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/topologyaware"
)

// orderedPlacements is a witness that stands for TopologyPlacementGenerator: it gives that plugin's placements in the
// order of their names, since their own order is by chance.
type orderedPlacements struct {
	*witness
	real fwk.PlacementGeneratePlugin
	root string // the group of the first call, of which all others are a part
}

func (p *orderedPlacements) GeneratePlacements(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo,
	parent *fwk.Placement) (*fwk.GeneratePlacementsResult, *fwk.Status) {
	key := groupKey(group)
	if p.root == "" {
		p.root = key
	}
	if p.root == key {
		p.tried = append(p.tried, map[string][]string{})
	}
	found, status := p.real.GeneratePlacements(ctx, state, group, parent)
	if found != nil {
		slices.SortFunc(found.Placements, func(a, b *fwk.Placement) int { return strings.Compare(a.Name, b.Name) })
	}
	return found, status
}

func hasPlacements() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.TopologyAwareWorkloadScheduling)
}

// withPlacements is the witness, or one that generates placements if the gate for that is on.
func withPlacements(ctx context.Context, w *witness, handle fwk.Handle) (fwk.Plugin, error) {
	if !hasPlacements() {
		return w, nil
	}
	gates := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	generator, err := topologyaware.New(ctx, nil, handle, gates)
	if err != nil {
		return nil, err
	}
	return &orderedPlacements{witness: w, real: generator}, nil
}

// watchPlacements puts the witness in the place of TopologyPlacementGenerator, if the gate for that is on.
func watchPlacements(plugins *config.Plugins) {
	if hasPlacements() {
		plugins.PlacementGenerate.Disabled = append(plugins.PlacementGenerate.Disabled, config.Plugin{Name: topologyaware.Name})
		plugins.PlacementGenerate.Enabled = append(plugins.PlacementGenerate.Enabled, config.Plugin{Name: witnessName})
	}
}
