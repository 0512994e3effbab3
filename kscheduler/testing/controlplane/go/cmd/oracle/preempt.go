package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// preempted is whom a pending pod would preempt, or why nobody.
type preempted struct {
	Host    string `json:"host,omitempty"`    // where it fits; then nothing else is said
	Failure string `json:"failure,omitempty"` // the text its user reads, with what PostFilter says
	Fault   string `json:"fault,omitempty"`   // why the search broke off; then PostFilter is not asked

	Promising   int      `json:"promising"`            // nodes where pods could make room by leaving
	Wanted      int      `json:"wanted"`               // candidates to look for
	Tried       []tried  `json:"tried"`                // nodes in the order they were tried in
	Candidates  []string `json:"candidates,omitempty"` // as they were put to the choice
	Chosen      string   `json:"chosen,omitempty"`
	Equals      []string `json:"equals,omitempty"`      // all that might be chosen, which is by the order of a map
	Ended       []string `json:"ended,omitempty"`       // uids of the victims in the order they are ended in
	Cleared     []string `json:"cleared,omitempty"`     // names of pods whose nomination is taken back
	Deallocated []string `json:"deallocated,omitempty"` // claims that are to be allocated again
	Deleted     []string `json:"deleted,omitempty"`     // claims for extended resources
	TakenBack   []string `json:"takenBack,omitempty"`   // all claims that might be either, which is by the order of a map
	Code        string   `json:"code,omitempty"`
	Message     string   `json:"message,omitempty"`
	Nomination  *string  `json:"nomination"` // what becomes of the pod's; nil leaves it as it is
}

// tried is a dry run on one node.
type tried struct {
	Node       string   `json:"node"`
	Rejector   string   `json:"rejector"`          // the plugin that had turned it down
	Victims    []string `json:"victims,omitempty"` // uids
	Violations int      `json:"violations,omitempty"`
	Status     *status  `json:"status,omitempty"` // nil if the pod would fit
}

// preempt runs the real PostFilter for each pending pod that fits nowhere, and watches it. Nobody is ended.
func (w *world) preempt(asked *request) ([]preempted, error) {
	current := asked.Cluster.Current
	if current == nil {
		current = asked.Pending
	}
	if err := w.show(asked.Cluster.Pods, current); err != nil {
		return nil, err
	}
	if err := w.showGroups(asked.PodGroups); err != nil { // those of pods on nodes
		return nil, err
	}
	found := []preempted{}
	for _, pod := range asked.Pending {
		watched, err := w.watchPreemption(pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		found = append(found, *watched)
	}
	return found, nil
}

// show puts pods where informers have them: the preemptor is looked up there, and whether its last victim is gone.
func (w *world) show(lists ...[]*v1.Pod) error {
	var errs []error
	for _, pods := range lists {
		errs = append(errs, fill(w.factory.Core().V1().Pods().Informer(), pods))
	}
	return firstError(errs...)
}

func (w *world) watchPreemption(pod *v1.Pod) (*preempted, error) {
	profile, ok := w.scheduler.Profiles[pod.Spec.SchedulerName]
	if !ok {
		return nil, fmt.Errorf("profile not found for scheduler name %q", pod.Spec.SchedulerName)
	}
	plugin := preemptionOf(profile)
	if plugin == nil {
		return nil, errors.New("its profile does not preempt")
	}
	info, _ := framework.NewPodInfo(pod)
	queue := w.scheduler.SchedulingQueue
	queue.AddNominatedPod(w.logger, info, nil)
	defer queue.DeleteNominatedPodIfExists(pod)

	// 1. The search.
	found := &preempted{Tried: []tried{}}
	state := framework.NewCycleState()
	result, err := w.scheduler.SchedulePod(w.ctx, profile, state, &framework.QueuedPodInfo{PodInfo: info})
	if err == nil {
		found.Host = result.SuggestedHost
		return found, nil
	}
	var fit *framework.FitError
	if !errors.As(err, &fit) {
		found.Fault = err.Error()
		return found, nil
	}

	// 2. PostFilter.
	statuses := inOrder{NodeToStatusReader: fit.Diagnosis.NodeToStatus, order: w.nodeOrder()}
	watcher := &preemptionWatcher{Interface: plugin, found: found, statuses: statuses}
	plugin.Evaluator.Interface = watcher
	onPreempted(plugin.Executor, watcher.tellEnded)
	client := profile.ClientSet().(*fake.Clientset)
	client.ClearActions()
	unavailable, err := unavailableClaims(state)
	if err != nil {
		return nil, err
	}
	var before sets.Set[int]
	if unavailable != nil {
		before = unavailable.Clone()
	}
	outcome, why := profile.RunPostFilterPlugins(w.ctx, state, pod, statuses)
	for plugin.Executor.IsPodRunningPreemption(pod.UID) {
		time.Sleep(20 * time.Microsecond)
	}
	found.Code, found.Message = why.Code().String(), why.Message()
	fit.Diagnosis.PostFilterMsg = why.Message()
	found.Failure = fit.Error()
	if outcome != nil && outcome.NominatingInfo != nil {
		found.Nomination = &outcome.NominatedNodeName
	}
	found.Cleared = cleared(client.Actions())
	found.Deallocated, found.Deleted = takenBack(client.Actions())
	if len(found.Deallocated)+len(found.Deleted) > 0 {
		*unavailable = before // dry runs of preemption, which have come since, add to them
		found.TakenBack = w.allTakenBack(pod, state, statuses, client)
	}

	// 3. What else might have been chosen.
	if why.IsSuccess() {
		watcher.tellChoice(w.ctx, plugin.Evaluator, outcome.NominatedNodeName)
	}
	return found, nil
}

// preemptionOf is the profile's own plugin; of PostFilter plugins a framework gives out no list.
func preemptionOf(profile framework.Framework) *defaultpreemption.DefaultPreemption {
	for _, plugin := range profile.PreEnqueuePlugins() {
		if found, ok := plugin.(*defaultpreemption.DefaultPreemption); ok {
			return found
		}
	}
	return nil
}

func cleared(actions []clienttesting.Action) []string {
	var found []string
	for _, action := range actions {
		patch, ok := action.(clienttesting.PatchAction)
		if ok && strings.Contains(string(patch.GetPatch()), `"nominatedNodeName":null`) {
			found = append(found, patch.GetName())
		}
	}
	return found
}

// inOrder gives out the nodes in the scheduler's order, where kube-scheduler takes that of a map.
type inOrder struct {
	fwk.NodeToStatusReader
	order []string
}

func (o inOrder) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	nodes, err := o.NodeToStatusReader.NodesForStatusCode(lister, code)
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, func(one, other fwk.NodeInfo) int {
		return slices.Index(o.order, one.Node().Name) - slices.Index(o.order, other.Node().Name)
	})
	return nodes, err
}

// preemptionWatcher puts down what the plugin answers. Only the offset of the first node, which is random, is its own.
type preemptionWatcher struct {
	preemption.Interface
	found      *preempted
	statuses   fwk.NodeToStatusReader
	candidates []preemption.Candidate
	isDone     bool
}

func (p *preemptionWatcher) GetOffsetAndNumCandidates(nodes int32) (int32, int32) {
	_, wanted := p.Interface.GetOffsetAndNumCandidates(nodes)
	p.found.Promising, p.found.Wanted = int(nodes), int(wanted)
	return 0, wanted
}

func (p *preemptionWatcher) tellTried(name string, victims []*v1.Pod, violations int, why *fwk.Status) {
	told := tried{Node: name, Rejector: p.statuses.Get(name).Plugin(), Violations: violations}
	for _, victim := range victims {
		told.Victims = append(told.Victims, string(victim.UID))
	}
	if !why.IsSuccess() {
		wording := statusOf(why)
		told.Status = &wording
	} else if len(victims) == 0 { // the evaluator makes that an error, in these words
		wording := statusOf(fwk.AsStatus(fmt.Errorf("expected at least one victim pod on node %q", name)))
		told.Status = &wording
	} else {
		p.candidates = append(p.candidates, &seen{name, &extenderv1.Victims{
			Pods: victims, NumPDBViolations: int64(violations)}})
	}
	p.found.Tried = append(p.found.Tried, told)
}

// CandidatesToVictimsMap is asked where there is a choice.
func (p *preemptionWatcher) CandidatesToVictimsMap(candidates []preemption.Candidate) map[string]*extenderv1.Victims {
	if !p.isDone {
		for _, candidate := range candidates {
			p.found.Candidates = append(p.found.Candidates, candidate.Name())
		}
	}
	return p.Interface.CandidatesToVictimsMap(candidates)
}

func (p *preemptionWatcher) tellEnded(victim *v1.Pod) {
	p.found.Ended = append(p.found.Ended, string(victim.UID))
}

// choices is how often two candidates are put before the choice: of equals each is then chosen at least once.
const choices = 60

func (p *preemptionWatcher) tellChoice(ctx context.Context, evaluator *preemption.Evaluator, chosen string) {
	p.isDone = true
	p.found.Chosen, p.found.Equals = chosen, []string{chosen}
	if len(p.found.Candidates) == 0 {
		p.found.Candidates = []string{chosen}
	}
	best := p.candidates[slices.IndexFunc(p.candidates, func(c preemption.Candidate) bool { return c.Name() == chosen })]
	for _, other := range p.candidates {
		if other == best || !slices.Contains(p.found.Candidates, other.Name()) {
			continue
		}
		for i := range choices {
			pair := []preemption.Candidate{best, other}
			if i%2 == 1 { // a map of two mostly begins with what was put in first
				slices.Reverse(pair)
			}
			if evaluator.SelectCandidate(ctx, pair).Name() == other.Name() {
				p.found.Equals = append(p.found.Equals, other.Name())
				break
			}
		}
	}
}

// seen is a candidate as the evaluator has it.
type seen struct {
	name    string
	victims *extenderv1.Victims
}

func (s *seen) Name() string                 { return s.name }
func (s *seen) Victims() *extenderv1.Victims { return s.victims }
func (s *seen) NumPodGroupDisruptions() int  { return 0 } // asked since 1.37
