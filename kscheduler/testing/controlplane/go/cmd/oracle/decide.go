package main

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// decide asks the plugins for the details and the real scheduler for the outcome. The state is that of its cycle.
func (w *world) decide(pod *v1.Pod) (decision, fwk.CycleState) {
	found := decision{Statuses: map[string]status{}, Feasible: []string{}, Scores: map[string]scores{}}
	state := framework.NewCycleState()
	twin, ok := w.twins[pod.Spec.SchedulerName]
	if !ok {
		found.Failure = fmt.Sprintf("profile not found for scheduler name %q", pod.Spec.SchedulerName)
		return found, state
	}
	for _, plugin := range w.scheduler.Profiles[pod.Spec.SchedulerName].PreEnqueuePlugins() {
		if gate := plugin.PreEnqueue(w.ctx, pod); !gate.IsSuccess() {
			gate.SetPlugin(plugin.Name())
			wording := statusOf(gate)
			found.PreEnqueue = &wording
			break
		}
	}
	w.schedule(state, pod, &found)
	if err := w.search(twin, pod, &found); err != nil {
		found.SearchFault = err.Error()
	}
	return found, state
}

func (w *world) schedule(state fwk.CycleState, pod *v1.Pod, found *decision) {
	// The queue goes on without the terms that cannot be read, and so does this; plugins read them again.
	info, _ := framework.NewPodInfo(pod)
	queued := &framework.QueuedPodInfo{PodInfo: info}
	profile := w.scheduler.Profiles[pod.Spec.SchedulerName]
	w.witness.found = nil
	result, err := w.scheduler.SchedulePod(w.ctx, profile, state, queued)
	if err == nil {
		found.Host, found.Evaluated = result.SuggestedHost, result.EvaluatedNodes
		found.Found = w.witness.found
		if result.FeasibleNodes == 1 { // then nothing is scored, and the witness not asked
			found.Found = []string{result.SuggestedHost}
		}
		return
	}
	found.Failure = err.Error()
	var fit *framework.FitError
	if errors.As(err, &fit) {
		found.IsFitError = true
		found.tell(w.nodeOrder(), pod, fit.Diagnosis)
		found.RejectedBy = sets.List(fit.Diagnosis.UnschedulablePlugins)
		found.PendingOn = sets.List(fit.Diagnosis.PendingPlugins)
	}
}

// tell puts down why nodes were turned down, if one of them is nominated: it is asked about even if PreFilter leaves it
// out, and what is said of the others then names more plugins.
func (found *decision) tell(nodes []string, pod *v1.Pod, diagnosis framework.Diagnosis) {
	if pod.Status.NominatedNodeName == "" || diagnosis.PreFilterMsg != "" {
		return
	}
	for _, name := range nodes {
		found.Statuses[name] = statusOf(diagnosis.NodeToStatus.Get(name))
	}
}

// search is PreFilter to Score once more, and Filter over all nodes. Score is over those that the scheduler found.
func (w *world) search(twin *twin, pod *v1.Pod, found *decision) error {
	asked := w.scheduler.Profiles[pod.Spec.SchedulerName]
	nodes, err := w.snapshot.List()
	if err != nil || len(nodes) == 0 {
		return err
	}
	state := framework.NewCycleState()

	// 1. PreFilter.
	result, rejected, named := asked.RunPreFilterPlugins(w.ctx, state, pod)
	if !rejected.IsSuccess() {
		wording := statusOf(rejected)
		found.PreFilter = &wording
		return nil
	}

	found.FilterSkipped = sets.List(state.GetSkipFilterPlugins())

	// 2. Filter.
	var feasible []fwk.NodeInfo
	for _, node := range nodes {
		name := node.Node().Name
		var why *fwk.Status
		if !result.AllNodes() && !result.NodeNames.Has(name) {
			why = fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
				fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", sets.List(named)))
		} else {
			why = asked.RunFilterPluginsWithNominatedPods(w.ctx, state, pod, node)
		}
		if why.IsSuccess() {
			feasible = append(feasible, node)
		} else if _, told := found.Statuses[name]; !told {
			found.Statuses[name] = statusOf(why)
		}
	}
	found.Feasible = names(feasible)
	if found.Allocations, err = allocationsIn(state); err != nil {
		return err
	}
	if found.Host == "" || len(found.Found) < 2 {
		return nil
	}
	feasible = slices.DeleteFunc(feasible, func(node fwk.NodeInfo) bool {
		return !slices.Contains(found.Found, node.Node().Name)
	})
	found.Scored = names(feasible)

	// 3. Score.
	if why := asked.RunPreScorePlugins(w.ctx, state, pod, feasible); !why.IsSuccess() {
		return fmt.Errorf("PreScore: %w", why.AsError())
	}
	return w.score(twin, state, pod, feasible, found)
}

func (w *world) score(twin *twin, state fwk.CycleState, pod *v1.Pod, feasible []fwk.NodeInfo, found *decision) error {
	found.Totals = make([]int64, len(feasible))
	for _, entry := range twin.lists.Score.Enabled {
		if state.GetSkipScorePlugins().Has(entry.Name) {
			continue
		}
		plugin := twin.made[entry.Name].(fwk.ScorePlugin)
		list := make(fwk.NodeScoreList, len(feasible))
		for i, node := range feasible {
			value, why := plugin.Score(w.ctx, state, pod, node)
			if !why.IsSuccess() {
				return fmt.Errorf("%s: %w", entry.Name, why.AsError())
			}
			list[i] = fwk.NodeScore{Name: node.Node().Name, Score: value}
		}
		raw := values(list)
		if extensions := plugin.ScoreExtensions(); extensions != nil {
			if why := extensions.NormalizeScore(w.ctx, state, pod, list); !why.IsSuccess() {
				return fmt.Errorf("%s: normalising: %w", entry.Name, why.AsError())
			}
		}
		found.Scores[entry.Name] = scores{Weight: entry.Weight, Raw: raw, Normalized: values(list)}
		for i := range list {
			found.Totals[i] += list[i].Score * int64(entry.Weight)
		}
	}
	return nil
}

func values(list fwk.NodeScoreList) []int64 {
	found := make([]int64, len(list))
	for i := range list {
		found[i] = list[i].Score
	}
	return found
}
