package ks

import "fmt"

// A Question is about one pod, at one extension point.
type Question struct {
	Point   Point
	Pod     Value // a map: Pod.Get("labels"), with the parts that were asked for
	Message Value // all of it: "node" and "row" in the binding cycle
	rows    at
	reply
}

// reply is what the plugin says besides verdicts and scores.
type reply struct {
	failure string
	said    []string
	reasons []reason
	state   []byte
	waitMs  uint32
}

type reason struct {
	code Code
	text string
}

// Count is the number of rows that are asked about.
func (q *Question) Count() int { return q.rows.count() }

// Row is the ith of them.
func (q *Question) Row(i int) int { return q.rows.row(i) }

// PodLabel is the value of a label, and whether the pod has it.
func (q *Question) PodLabel(key string) (string, bool) {
	value := q.Pod.Get("labels").Get(key)
	return value.Text(), value != nil
}

// PodRequest is what the pod asks of a resource.
func (q *Question) PodRequest(resource string) int64 {
	return q.Pod.Get("requests").Get(resource).Int(0)
}

// State is what Remember kept at an earlier point of this pod's cycle.
func (q *Question) State() []byte { return q.Pod.Get("state").Bytes() }

// Remember keeps a state until the pod's cycle ends.
func (q *Question) Remember(state []byte) { q.state = append([]byte{}, state...) }

// Fail says that this question failed.
func (q *Question) Fail(format string, parts ...any) { q.failure = fmt.Sprintf(format, parts...) }

// Say adds a reason to the code that Status returns.
func (q *Question) Say(reason string) { q.said = append(q.said, reason) }

// WaitMs is how long a pod waits whose Status is Wait.
func (q *Question) WaitMs(milliseconds uint32) { q.waitMs = milliseconds }

// Reason gives the verdict, in Filter, that rejects a row. Ask for each reason once.
func (q *Question) Reason(code Code, text string) byte {
	q.reasons = append(q.reasons, reason{code, text})
	return byte(len(q.reasons))
}

// Event tells people about the pod.
func (q *Question) Event(isWarning bool, reason, note string) { event(isWarning, reason, note) }
