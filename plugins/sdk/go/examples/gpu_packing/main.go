// Fill up nodes with GPUs before others are begun, and keep pods without GPUs away from them.
package main

import ks "kscheduler/sdk"

var (
	resource          = "nvidia.com/gpu"
	allocatable, used *ks.Numbers
)

func init() {
	ks.Plugin{Configure: configure, Describe: describe, Score: score}.Register()
}

func main() {}

func configure(config string) error {
	if config != "" {
		resource = config
	}
	return nil
}

func describe() ks.Description {
	allocatable, used = ks.WantAllocatable(resource), ks.WantUsed(resource)
	return ks.Description{
		Name:    "GpuPacking",
		Points:  []ks.Point{ks.Score},
		Depends: []string{"pod", "node", "usage"},
		Pod:     []string{"requests"},
	}
}

func score(q *ks.Question, scores []int64) {
	has, taken := allocatable.Values(), used.Values()
	wanted := q.PodRequest(resource)
	for i := range scores {
		row := q.Row(i)
		scores[i] = scoreOf(has[row], taken[row], wanted)
	}
}

func scoreOf(has, taken, wanted int64) int64 {
	full := taken + wanted
	switch {
	case wanted == 0 && has == 0:
		return 100
	case wanted == 0 || has <= 0:
		return 0
	case full >= has:
		return 100
	}
	return full * 100 / has
}
