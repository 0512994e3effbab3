// Prefer nodes by the number in one of their labels, whose key is the configuration.
package main

import (
	"strconv"

	ks "kscheduler/sdk"
)

var (
	key   = "example.com/performance"
	label *ks.Indexed
)

func init() {
	ks.Plugin{Configure: configure, Describe: describe, Score: score}.Register()
}

func main() {}

func configure(config string) error {
	if config != "" {
		key = config
	}
	return nil
}

func describe() ks.Description {
	label = ks.WantLabel(key)
	return ks.Description{
		Name:      "LabelScore",
		Points:    []ks.Point{ks.Score},
		Depends:   []string{"node"},
		Normalize: "default",
	}
}

// numberOf a label: decimal digits, at most 18 of them; 0 for anything else.
func numberOf(text string) int64 {
	number, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > 18 {
		return 0
	}
	return int64(number)
}

func score(q *ks.Question, scores []int64) {
	known, number := -1, int64(0) // nodes with equal labels often follow each other
	for i := range scores {
		index := label.Index(q.Row(i))
		if index < 0 {
			continue
		}
		if index != known {
			known, number = index, numberOf(label.Text(index))
		}
		scores[i] = number
	}
}
