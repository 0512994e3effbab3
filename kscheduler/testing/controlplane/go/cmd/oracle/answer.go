package main

import (
	fwk "k8s.io/kube-scheduler/framework"
)

type answer struct {
	Error      string               `json:"error,omitempty"`
	NodeOrder  []string             `json:"nodeOrder"`  // as the scheduler visits them
	Plugins    map[string][]weighed `json:"plugins"`    // profile/extension point -> plugins in order
	QueueOrder []int                `json:"queueOrder"` // positions of the pending pods, as they leave the queue
	Pods       []decision           `json:"pods"`
	Changes    [][]happened         `json:"changes,omitempty"` // for each change the events it leads to
	Preempted  []preempted          `json:"preempted,omitempty"`
	Gang       *ganged              `json:"gang,omitempty"`
}

type weighed struct {
	Name   string `json:"name"`
	Weight int32  `json:"weight"`
}

// decision is what was found out about one pending pod.
type decision struct {
	PreEnqueue    *status           `json:"preEnqueue,omitempty"`    // what gates the pod; it is decided about all the same
	PreFilter     *status           `json:"preFilter,omitempty"`     // nil unless it ended the cycle
	FilterSkipped []string          `json:"filterSkipped,omitempty"` // plugins whose PreFilter left them out
	Statuses      map[string]status `json:"statuses"`                // node -> why not; nodes that fit are absent
	Feasible      []string          `json:"feasible"`                // of all nodes
	Scored        []string          `json:"scored,omitempty"`        // of Feasible, those in the sample, if more than one
	Scores        map[string]scores `json:"scores"`                  // plugin -> scores; empty if none are Scored
	Totals        []int64           `json:"totals"`                  // for each of Scored

	Allocations map[string]allocated `json:"allocations,omitempty"` // of Feasible, those where DynamicResources has a say

	Host        string   `json:"host"`                // of the real SchedulePod; "" if it failed
	Evaluated   int      `json:"evaluated,omitempty"` // nodes it looked at
	Found       []string `json:"found,omitempty"`     // nodes it found to fit, in order
	Failure     string   `json:"failure,omitempty"`   // its error's text
	IsFitError  bool     `json:"isFitError"`          // a matter of room, and no fault
	RejectedBy  []string `json:"rejectedBy"`          // plugins whose events may help
	PendingOn   []string `json:"pendingOn,omitempty"` // likewise, and then without backoff
	SearchFault string   `json:"searchFault,omitempty"`
}

// scores holds one plugin's scores, for each of decision.Scored.
type scores struct {
	Weight     int32   `json:"weight"`
	Raw        []int64 `json:"raw"`
	Normalized []int64 `json:"normalized"`
}

type status struct {
	Code    string   `json:"code"`
	Plugin  string   `json:"plugin"`
	Reasons []string `json:"reasons"`
}

func statusOf(found *fwk.Status) status {
	return status{Code: found.Code().String(), Plugin: found.Plugin(), Reasons: found.Reasons()}
}
