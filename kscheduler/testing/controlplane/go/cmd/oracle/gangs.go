package main

// ganged is what became of the pods of one group in one attempt.
type ganged struct {
	IsTried   bool              `json:"isTried"` // false: the group is held back, and nothing else is said
	Pods      map[string]member `json:"pods"`    // by name; one that is terminating is absent
	Taken     map[string]string `json:"taken"`   // pod -> the node that it had meanwhile, or has
	Again     map[string]string `json:"again"`   // pod -> the node that it had once others had been given back
	Failed    []string          `json:"failed"`  // names in the order in which they were reported
	Ended     []string          `json:"ended"`   // uids of the pods that are evicted for the group, in that order
	Condition *groupCondition   `json:"condition,omitempty"`
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
