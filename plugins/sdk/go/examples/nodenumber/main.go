// Prefer the nodes whose name ends with the same digit as the pod's.
package main

import (
	"errors"

	ks "kscheduler/sdk"
)

var reverse bool

func init() {
	ks.Plugin{Configure: configure, Describe: describe, Status: preScore, Score: score}.Register()
}

func main() {}

func configure(config string) error {
	reverse = config == `{"reverse":true}`
	if config != "" && !reverse && config != `{"reverse":false}` {
		return errors.New(`expected {"reverse":true}, {"reverse":false} or nothing`)
	}
	return nil
}

func describe() ks.Description {
	ks.WantNames()
	return ks.Description{
		Name:    "NodeNumber",
		Points:  []ks.Point{ks.PreScore, ks.Score},
		Depends: []string{"pod", "node"},
		Pod:     []string{"name"},
	}
}

// lastDigit of a name, or -1.
func lastDigit(name string) int {
	if name == "" || name[len(name)-1] < '0' || name[len(name)-1] > '9' {
		return -1
	}
	return int(name[len(name)-1] - '0')
}

// preScore works the pod's digit out once, and remembers it.
func preScore(q *ks.Question) ks.Code {
	digit := lastDigit(q.Pod.Get("name").Text())
	if digit < 0 {
		return ks.Skip
	}
	q.Remember([]byte{byte(digit)})
	return ks.Success
}

func score(q *ks.Question, scores []int64) {
	wanted := -1
	if state := q.State(); len(state) == 1 {
		wanted = int(state[0])
	}
	for i := range scores {
		matches := wanted >= 0 && lastDigit(ks.NodeName(q.Row(i))) == wanted
		if matches != reverse {
			scores[i] = 10
		}
	}
}
