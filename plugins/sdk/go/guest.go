// Package ks is for plugins of kscheduler in Go: fill in a Plugin, register it in init, and build with GOOS=wasip1.
// It speaks the ABI (../../abi/README.md) and keeps the node table.
package ks

import "unsafe"

// A Point is an extension point.
type Point int32

const (
	PreEnqueue     Point = 1
	PreFilter      Point = 2
	Filter         Point = 3
	PreScore       Point = 5
	Score          Point = 6
	NormalizeScore Point = 7
	Reserve        Point = 8
	Unreserve      Point = 9
	Permit         Point = 10
	PreBind        Point = 11
	PostBind       Point = 12
)

var pointWords = [...]string{
	"", "preEnqueue", "preFilter", "filter", "", "preScore", "score", "normalizeScore",
	"reserve", "unreserve", "permit", "preBind", "postBind",
}

// A Code says how a question ended.
type Code int64

const (
	Success Code = iota
	Error
	Unschedulable
	Unresolvable
	Wait
	Skip
	Pending
)

// A Description says what the plugin is, as in the ABI's ks_describe.
type Description struct {
	Name      string
	Points    []Point
	Depends   []string // what answers follow from: "pod", "node", "usage" and so on; "other" if empty
	Pod       []string // parts of the pod
	Normalize string
}

// A Plugin is your functions; leave out those you do not need.
type Plugin struct {
	Configure func(config string) error          // an error refuses the configuration
	Describe  func() Description                 // ask for columns here
	Pods      func(row int, pods Value)          // all pods on a row, whenever they have changed; see WantPods
	Filter    func(q *Question, verdicts []byte) // an entry for each row asked about, all 0
	Score     func(q *Question, scores []int64)  // likewise; at NormalizeScore raw scores come in
	Status    func(q *Question) Code             // all other points
}

var plugin Plugin

// Register is to be called in an init function: main is not run.
func (p Plugin) Register() { plugin = p }

var (
	message []byte  // the host writes here
	out     []byte  // the answer, until the next call
	scores  []int64 // used again by the next question
)

func answer() uint64 {
	if len(out) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(&out[0])))<<32 | uint64(len(out))
}

func answerError(failure error) uint64 {
	out = out[:0]
	if failure != nil {
		out = addText(addText(addMap(out, 1), "error"), failure.Error())
	}
	return answer()
}

//go:wasmexport kscheduler_abi_v1
func abiVersion() int32 { return 1 }

//go:wasmexport ks_alloc
func alloc(size uint32) uint32 {
	size = max(size, 1)
	if int(size) > cap(message) {
		message = make([]byte, 2*int(size))
	}
	message = message[:size]
	return uint32(uintptr(unsafe.Pointer(&message[0])))
}

// received is the message of a call, which is in the buffer that alloc gave.
func received(size uint32) Value {
	if size > uint32(len(message)) {
		return nil
	}
	return Value(message[:size])
}

//go:wasmexport ks_configure
func configure(_, size uint32) uint64 {
	if plugin.Configure == nil {
		return 0
	}
	return answerError(plugin.Configure(string(received(size))))
}

//go:wasmexport ks_describe
func describe() uint64 {
	d := plugin.Describe()
	points := []string{}
	for _, point := range d.Points {
		points = append(points, pointWords[point])
	}
	if d.Depends == nil {
		d.Depends = []string{"other"}
	}
	if d.Normalize == "" {
		d.Normalize = "none"
	}
	out = addMap(out[:0], 11)
	out = addInt(addText(out, "abi"), 1)
	out = addText(addText(out, "name"), d.Name)
	out = addTexts(out, "points", points)
	out = addTexts(out, "depends", d.Depends)
	out = addTexts(out, "pod", d.Pod)
	out = addTexts(out, "table", tableParts)
	out = addTexts(out, "resources", namesIn("alloc", "used"))
	out = addTexts(out, "labels", namesIn("labels"))
	out = addTexts(out, "annotations", namesIn("annotations"))
	out = addTexts(out, "metrics", namesIn("metrics"))
	out = addText(addText(out, "normalize"), d.Normalize)
	return answer()
}

//go:wasmexport ks_table
func table(_, size uint32) uint64 { return answerError(takeTable(received(size))) }

//go:wasmexport ks_call
func call(point int32, _, size uint32) uint64 {
	question := received(size)
	pods := question.Get("pods")
	asked := at(question.Get("rows").Bytes())
	out = addList(addText(addMap(out[:0], 1), "pods"), pods.Len())
	for i, pod := range pods.Items {
		q := &Question{Point: Point(point), Pod: pod, Message: question, rows: asked}
		before := len(out)
		switch q.Point {
		case Filter:
			addVerdicts(q)
		case Score, NormalizeScore:
			addScores(q, question.Get("scores").Item(i).Bytes())
		default:
			addStatus(q)
		}
		if q.failure != "" {
			out = addText(addText(addMap(out[:before], 1), "error"), q.failure)
		}
	}
	return answer()
}

func addVerdicts(q *Question) {
	verdicts := make([]byte, q.Count())
	plugin.Filter(q, verdicts)
	out = addBin(addText(addMap(out, 2), "verdicts"), verdicts)
	out = addList(addText(out, "reasons"), len(q.reasons))
	for _, reason := range q.reasons {
		out = addText(addInt(addList(out, 2), int64(reason.code)), reason.text)
	}
}

func addScores(q *Question, raw []byte) {
	n := q.Count()
	if cap(scores) < n {
		scores = make([]int64, 2*n)
	}
	scores = scores[:n]
	clear(scores)
	if len(raw) == 8*n {
		for i := range scores {
			scores[i] = unpackInt(raw[8*i:])
		}
	}
	plugin.Score(q, scores)
	out = addBin(addText(addMap(out, 1), "scores"), packed(scores))
}

// packed are numbers as a column has them; wasm is little-endian.
func packed(numbers []int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), 8*len(numbers))
}

func addStatus(q *Question) {
	code := Success
	if plugin.Status != nil {
		code = plugin.Status(q)
	}
	pairs := 1
	if q.state != nil {
		pairs++
	}
	if q.waitMs > 0 {
		pairs++
	}
	out = addList(addText(addMap(out, pairs), "status"), 1+len(q.said))
	out = addInt(out, int64(code))
	for _, reason := range q.said {
		out = addText(out, reason)
	}
	if q.state != nil {
		out = addBin(addText(out, "state"), q.state)
	}
	if q.waitMs > 0 {
		out = addInt(addText(out, "wait_ms"), int64(q.waitMs))
	}
}
