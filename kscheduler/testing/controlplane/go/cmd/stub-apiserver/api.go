package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var magic = []byte("k8s\x00")

// api is all that is served.
type api struct {
	version *counter
	nodes   *collection
	pods    *collection
	others  *collection // always empty: whoever watches anything else

	bound     atomic.Int64
	events    atomic.Int64
	patches   atomic.Int64 // of pods

	eventPatches atomic.Int64 // counts of series
	conflicts atomic.Int64
	mistakes  atomic.Int64 // requests that no scheduler should send
	lastBound atomic.Int64 // when, in nanoseconds of Unix time

	bodies  []template // of unbound pods, by kind
	settled []template // of bound ones
}

func newAPI() *api {
	version := &counter{value: 1}
	return &api{
		version: version,
		nodes:   newCollection("Node", version),
		pods:    newCollection("Pod", version),
		others:  newCollection("Anything", version),
	}
}

func (a *api) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	switch where := request.URL.Path; {
	case request.Method == http.MethodPost && strings.HasSuffix(where, "/binding"):
		a.bind(response, request)
	case request.Method == http.MethodPost && strings.HasSuffix(where, "/events"):
		a.record(response, request)
	case strings.HasPrefix(where, "/stub/"):
		a.command(response, request)
	case request.Method == http.MethodPatch && strings.Contains(where, "/pods/"):
		a.patch(response, request)
	case request.Method == http.MethodPatch && strings.Contains(where, "/events/"):
		io.Copy(io.Discard, request.Body)
		a.eventPatches.Add(1)
		writePatched(response)
	case request.Method != http.MethodGet:
		a.mistake(response, http.StatusMethodNotAllowed, "MethodNotAllowed", request.Method+" "+where)
	case where == "/version":
		response.Header().Set("Content-Type", "application/json")
		io.WriteString(response, `{"major":"1","minor":"36","gitVersion":"v1.36.0"}`)
	case where == "/readyz" || where == "/livez":
		io.WriteString(response, "ok")
	default:
		a.read(response, request)
	}
}

func (a *api) read(response http.ResponseWriter, request *http.Request) {
	found := a.others
	switch request.URL.Path {
	case "/api/v1/nodes":
		found = a.nodes
	case "/api/v1/pods":
		found = a.pods
	}
	if request.URL.Query().Get("watch") == "true" {
		found.watch(response, request)
	} else {
		found.list(response)
	}
}

// bind takes POST /api/v1/namespaces/NAMESPACE/pods/NAME/binding.
func (a *api) bind(response http.ResponseWriter, request *http.Request) {
	name := path.Base(path.Dir(request.URL.Path))
	var binding corev1.Binding
	if err := decode(request, &binding); err != nil {
		a.mistake(response, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	a.nodes.mutex.Lock()
	_, exists := a.nodes.objects[binding.Target.Name]
	a.nodes.mutex.Unlock()
	a.pods.mutex.Lock()
	defer a.pods.mutex.Unlock()
	one, ok := a.pods.objects[name]
	switch {
	case !ok || !exists:
		a.mistake(response, http.StatusNotFound, "NotFound", fmt.Sprintf("pod %q or node %q", name, binding.Target.Name))
	case string(binding.UID) != uidOf(one.index):
		a.mistake(response, http.StatusConflict, "Conflict", fmt.Sprintf("pod %q has another uid than %q", name, binding.UID))
	case one.node != "":
		a.conflicts.Add(1)
		a.mistake(response, http.StatusConflict, "Conflict", fmt.Sprintf("pod %q is bound already", name))
	default:
		one.node = binding.Target.Name
		version := a.version.next()
		one.text = a.settled[one.kind].fill(one.index, version, binding.Target.Name)
		a.pods.tell("MODIFIED", version, one.text)
		a.bound.Add(1)
		a.lastBound.Store(time.Now().UnixNano())
		writeCreated(response, success)
	}
}

// patch takes a patch of a pod: if it is one of an unbound pod's conditions, the pod then has these, and watchers see it.
func (a *api) patch(response http.ResponseWriter, request *http.Request) {
	var patch struct {
		Status struct {
			Conditions json.RawMessage `json:"conditions"`
		} `json:"status"`
	}
	body, err := io.ReadAll(request.Body)
	if err == nil {
		err = json.Unmarshal(body, &patch)
	}
	if err != nil {
		a.mistake(response, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	a.patches.Add(1)
	if parts := strings.Split(request.URL.Path, "/"); parts[len(parts)-1] == "status" && patch.Status.Conditions != nil {
		a.setConditions(parts[len(parts)-2], patch.Status.Conditions)
	}
	writePatched(response)
}

func (a *api) setConditions(name string, conditions []byte) {
	a.pods.mutex.Lock()
	defer a.pods.mutex.Unlock()
	one, ok := a.pods.objects[name]
	if !ok || one.node != "" {
		return
	}
	version := a.version.next()
	one.text = withConditions(a.bodies[one.kind].fill(one.index, version, ""), conditions)
	a.pods.tell("MODIFIED", version, one.text)
}

// record takes an Event and answers it as it came, as an apiserver does but for a few fields.
func (a *api) record(response http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil || len(body) < len(magic) {
		a.mistake(response, http.StatusBadRequest, "BadRequest", "an Event that cannot be read")
		return
	}
	a.events.Add(1)
	writeCreated(response, body)
}

func (a *api) mistake(response http.ResponseWriter, code int, reason, message string) {
	a.mistakes.Add(1)
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(code)
	json.NewEncoder(response).Encode(map[string]any{
		"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
	})
}

func (a *api) command(response http.ResponseWriter, request *http.Request) {
	switch request.URL.Path {
	case "/stub/state":
		json.NewEncoder(response).Encode(map[string]any{
			"bound": a.bound.Load(), "events": a.events.Load(), "conflicts": a.conflicts.Load(),
			"mistakes": a.mistakes.Load(), "watches": a.watches(),
			"patches": a.patches.Load(), "event_patches": a.eventPatches.Load(),
			"last_bound_s": float64(a.lastBound.Load()) / 1e9, "now_s": float64(time.Now().UnixNano()) / 1e9,
		})
	case "/stub/forget-pods":
		a.forgetPods()
	case "/stub/hold-watch":
		a.pods.show(true)
	case "/stub/show-watch":
		a.pods.show(false)
	case "/stub/nodes", "/stub/pods", "/stub/delete-pods":
		var wanted batch
		if err := json.NewDecoder(request.Body).Decode(&wanted); err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
			return
		}
		if request.URL.Path == "/stub/delete-pods" {
			a.deletePods(wanted)
		} else {
			a.create(request.URL.Path == "/stub/pods", wanted)
		}
	default:
		http.NotFound(response, request)
	}
}

func (a *api) watches() map[string]int {
	counts := map[string]int{}
	for name, each := range map[string]*collection{"nodes": a.nodes, "pods": a.pods, "others": a.others} {
		each.mutex.Lock()
		counts[name] = len(each.watchers)
		each.mutex.Unlock()
	}
	return counts
}

func (a *api) create(isPods bool, wanted batch) {
	kinds := make([]template, len(wanted.Templates))
	for i, text := range wanted.Templates {
		kinds[i] = parse(text)
	}
	into, first := a.nodes, 0
	if isPods {
		into = a.pods
		a.pods.mutex.Lock()
		first = len(a.bodies)
		a.bodies = append(a.bodies, kinds...)
		for _, text := range wanted.Bound {
			a.settled = append(a.settled, parse(text))
		}
		a.pods.mutex.Unlock()
	}
	name := parse(wanted.Name)
	for index := wanted.First; index < wanted.First+wanted.Count; index++ {
		kind := index % len(kinds)
		into.add(string(name.fill(index, 0, "")), func(version uint64) *object {
			return &object{index: index, kind: first + kind, text: kinds[kind].fill(index, version, "")}
		})
	}
}

// deletePods deletes those of these pods that there are.
func (a *api) deletePods(wanted batch) {
	a.pods.mutex.Lock()
	defer a.pods.mutex.Unlock()
	name := parse(wanted.Name)
	for index := wanted.First; index < wanted.First+wanted.Count; index++ {
		key := string(name.fill(index, 0, ""))
		if one, ok := a.pods.objects[key]; ok {
			a.tellDeleted(one)
			delete(a.pods.objects, key)
		}
	}
}

// tellDeleted must be called with the lock of the pods held.
func (a *api) tellDeleted(one *object) {
	kinds := a.bodies
	if one.node != "" {
		kinds = a.settled
	}
	// As the apiserver's, a deletion has a version of its own.
	version := a.version.next()
	a.pods.tell("DELETED", version, kinds[one.kind].fill(one.index, version, one.node))
}

func (a *api) forgetPods() {
	a.pods.mutex.Lock()
	defer a.pods.mutex.Unlock()
	for _, name := range a.pods.order {
		if one, ok := a.pods.objects[name]; ok {
			a.tellDeleted(one)
		}
	}
	a.pods.objects, a.pods.order = map[string]*object{}, nil
	a.bodies, a.settled = nil, nil
	a.bound.Store(0)
	a.events.Store(0)
	a.patches.Store(0)
	a.eventPatches.Store(0)
}

// decode reads a protobuf body, which is a runtime.Unknown behind four bytes.
func decode(request *http.Request, into interface{ Unmarshal([]byte) error }) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	if len(body) < len(magic) || string(body[:len(magic)]) != string(magic) {
		return fmt.Errorf("expected protobuf, got %d bytes of something else", len(body))
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(body[len(magic):]); err != nil {
		return err
	}
	return into.Unmarshal(unknown.Raw)
}
