// A rack has so many licenses: pods that need one go where one is left, and all pods prefer nodes that have their image.
// How many is the configuration.
package main

import (
	"errors"
	"strconv"

	ks "kscheduler/sdk"
)

const license = "example.com/license"

var (
	licenses int64 = 1
	racks    *ks.Indexed
	images   *ks.Indexed
	onRow    []int64 // row -> licenses that pods there use
)

func init() {
	ks.Plugin{Configure: configure, Describe: describe, Pods: pods, Filter: filter, Score: score}.Register()
}

func main() {}

func configure(config string) (err error) {
	if config == "" {
		return nil
	}
	if licenses, err = strconv.ParseInt(config, 10, 64); err != nil || licenses < 0 {
		return errors.New("expected the number of licenses of a rack")
	}
	return nil
}

func describe() ks.Description {
	racks, images = ks.WantLabel("example.com/rack"), ks.WantImages()
	ks.WantPods()
	return ks.Description{
		Name:   "RackLicenses",
		Points: []ks.Point{ks.Filter, ks.Score},
		Pod:    []string{"labels", "containers"},
	}
}

func pods(row int, here ks.Value) {
	for len(onRow) <= row {
		onRow = append(onRow, 0)
	}
	onRow[row] = 0
	for _, pod := range here.Items {
		if pod.Get("labels").Get(license) != nil {
			onRow[row]++
		}
	}
}

func filter(q *ks.Question, verdicts []byte) {
	if _, needsOne := q.PodLabel(license); !needsOne {
		return
	}
	none := q.Reason(ks.Unresolvable, "node(s) were in no rack")
	usedUp := q.Reason(ks.Unschedulable, "node(s) had no license left in their rack")
	inRack := make([]int64, racks.Known())
	for row, used := range onRow {
		if rack := racks.Index(row); rack >= 0 {
			inRack[rack] += used
		}
	}
	for i := range verdicts {
		switch rack := racks.Index(q.Row(i)); {
		case rack < 0:
			verdicts[i] = none
		case inRack[rack] >= licenses:
			verdicts[i] = usedUp
		}
	}
}

func score(q *ks.Question, scores []int64) {
	wanted := map[string]bool{}
	for _, container := range q.Pod.Get("containers").Items {
		wanted[container.Item(1).Text()] = true
	}
	for i := range scores {
		index := images.Index(q.Row(i))
		if index < 0 {
			continue
		}
		for _, image := range images.Value(index).Items {
			if wanted[image.Item(0).Text()] {
				scores[i] = 100
			}
		}
	}
}
