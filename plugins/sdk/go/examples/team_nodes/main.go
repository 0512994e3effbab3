// Nodes with a team take pods of that team only; other pods go where no team is. The label's key is the configuration.
package main

import (
	"errors"

	ks "kscheduler/sdk"
)

var (
	key  = "example.com/team"
	team *ks.Indexed
)

func init() {
	ks.Plugin{Configure: configure, Describe: describe, Filter: filter}.Register()
}

func main() {}

func configure(config string) error {
	if len(config) > 253 {
		return errors.New("expected the key of a label, of at most 253 bytes")
	}
	if config != "" {
		key = config
	}
	return nil
}

func describe() ks.Description {
	team = ks.WantLabel(key)
	return ks.Description{
		Name:    "TeamNodes",
		Points:  []ks.Point{ks.Filter},
		Depends: []string{"pod", "node"},
		Pod:     []string{"labels"},
	}
}

func filter(q *ks.Question, verdicts []byte) {
	mine, isMember := q.PodLabel(key)
	other := q.Reason(ks.Unresolvable, "node(s) belonged to another team")
	none := q.Reason(ks.Unresolvable, "node(s) did not belong to the pod's team")
	for i := range verdicts {
		theirs, hasTeam := team.TextAt(q.Row(i))
		switch {
		case hasTeam && !(isMember && mine == theirs):
			verdicts[i] = other
		case isMember && !hasTeam:
			verdicts[i] = none
		}
	}
}
