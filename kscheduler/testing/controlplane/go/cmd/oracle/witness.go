package main

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

const witnessName = "Witness"

// witness is a PreScore and Reserve plugin that sees which nodes the scheduler found, in its order, and which it took.
// It changes nothing.
type witness struct {
	found  []string          // of the last cycle in which more than one node fitted
	taken  map[string]string // pod -> the node that was reserved for it first
	again  map[string]string // pod -> the node that was reserved for it first after any was given back
	undone bool              // whether any was given back
	// For each time that the placements of a group were generated: pod -> the nodes reserved for it since.
	tried []map[string][]string
}

func newWitness() *witness { return &witness{taken: map[string]string{}, again: map[string]string{}} }

func (w *witness) Name() string { return witnessName }

func (w *witness) PreScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	w.found = names(nodes)
	return nil
}

func (w *witness) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if last := len(w.tried) - 1; last >= 0 {
		w.tried[last][pod.Name] = append(w.tried[last][pod.Name], node)
	}
	nodes := w.taken
	if w.undone {
		nodes = w.again
	}
	if _, known := nodes[pod.Name]; !known {
		nodes[pod.Name] = node
	}
	return nil
}

func (w *witness) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string) { w.undone = true }

func (w *witness) registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{
		witnessName: func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			return withPlacements(ctx, w, handle)
		},
	}
}

// watched is the profiles with a witness in each.
func watched(profiles []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	profiles = slices.Clone(profiles)
	for i := range profiles {
		profiles[i] = *profiles[i].DeepCopy()
		plugins := profiles[i].Plugins
		plugins.PreScore.Enabled = append(plugins.PreScore.Enabled, config.Plugin{Name: witnessName})
		plugins.Reserve.Enabled = append(plugins.Reserve.Enabled, config.Plugin{Name: witnessName})
		watchPlacements(plugins)
	}
	return profiles
}
