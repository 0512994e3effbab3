package main

import (
	"encoding/json"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const bindingPatience = 20 * time.Second // for the bindings of a group, which take milliseconds

// ganged is what became of the pods of one group in one attempt.
type ganged struct {
	IsTried bool              `json:"isTried"` // false: the group is held back, and nothing else is said
	Pods    map[string]member `json:"pods"`    // by name; one that is terminating is absent
	Taken   map[string]string `json:"taken"`   // pod -> the node that it had meanwhile, or has
	Again   map[string]string `json:"again"`   // pod -> the node that it had once others had been given back
	// The same by placements, of which each pod may have had a node in several: pod -> nodes, for each time that the
	// placements were generated.
	Tried     []map[string][]string `json:"tried"`
	Order     []string              `json:"order"`  // names in the order in which they were first tried, where that is by chance
	Failed    []string              `json:"failed"` // names in the order in which they were reported
	Ended     []string              `json:"ended"`  // uids of the pods that are evicted for the group, in that order
	Condition *groupCondition       `json:"condition,omitempty"`
	Claims    *claimWrites          `json:"claims,omitempty"`
	// Of a composite group: the conditions that are written, by the name of the PodGroup.
	Conditions map[string]*groupCondition `json:"conditions,omitempty"`
}

// member is what became of one pod: it has a node, or the reason why it has none.
type member struct {
	Host       string  `json:"host,omitempty"`
	Failure    string  `json:"failure,omitempty"`
	IsRejected bool    `json:"isRejected,omitempty"` // false: a fault
	Code       string  `json:"code,omitempty"`
	Nomination *string `json:"nomination"` // what becomes of the pod's; nil leaves it as it is
}

type groupCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration"`
}

// patched is the condition of a kind that a patch of a group's status leads to, which has only the fields that change.
// stated: the conditions before.
func patched(stated []metav1.Condition, kind string, patch json.RawMessage) (*groupCondition, error) {
	var written struct {
		Status struct {
			Conditions []json.RawMessage `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(patch, &written); err != nil {
		return nil, err
	}
	if len(written.Status.Conditions) != 1 {
		return nil, fmt.Errorf("the group's status: expected one condition in the patch, got %s", patch)
	}
	condition := metav1.Condition{}
	if before := apimeta.FindStatusCondition(stated, kind); before != nil {
		condition = *before
	}
	if err := json.Unmarshal(written.Status.Conditions[0], &condition); err != nil {
		return nil, err
	}
	return &groupCondition{
		condition.Type, string(condition.Status), condition.Reason, condition.Message, condition.ObservedGeneration,
	}, nil
}
