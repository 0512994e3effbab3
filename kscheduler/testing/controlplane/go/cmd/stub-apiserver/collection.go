package main

import (
	"fmt"
	"net/http"
	"sync"
)

// collection is the objects of one kind and who watches them. Its methods may be called from any goroutine.
type collection struct {
	mutex    sync.Mutex
	kind     string
	version  *counter
	objects  map[string]*object
	order    []string // names, as created
	watchers map[*watcher]struct{}
}

// counter is the resource version of all objects.
type counter struct {
	mutex sync.Mutex
	value uint64
}

func (c *counter) next() uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.value++
	return c.value
}

func (c *counter) now() uint64 {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.value
}

func newCollection(kind string, version *counter) *collection {
	return &collection{kind: kind, version: version, objects: map[string]*object{}, watchers: map[*watcher]struct{}{}}
}

func (c *collection) add(name string, made func(version uint64) *object) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	one := made(c.version.next())
	c.objects[name] = one
	c.order = append(c.order, name)
	c.tell("ADDED", one.text)
}

// tell must be called with the lock held, so that all watchers see changes in one order.
func (c *collection) tell(event string, text []byte) {
	line := make([]byte, 0, len(text)+40)
	line = append(line, `{"type":"`...)
	line = append(line, event...)
	line = append(line, `","object":`...)
	line = append(line, text...)
	line = append(line, "}\n"...)
	for each := range c.watchers {
		each.send(line)
	}
}

func (c *collection) list(response http.ResponseWriter) {
	c.mutex.Lock()
	texts := make([][]byte, 0, len(c.order))
	for _, name := range c.order {
		if one, ok := c.objects[name]; ok {
			texts = append(texts, one.text)
		}
	}
	version := c.version.now()
	c.mutex.Unlock()
	response.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(response, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[`, c.kind, version)
	for i, text := range texts {
		if i > 0 {
			response.Write([]byte{','})
		}
		response.Write(text)
	}
	response.Write([]byte("]}\n"))
}

// watcher is one open watch: lines wait here until its connection takes them.
type watcher struct {
	mutex   sync.Mutex
	waiting [][]byte
	wake    chan struct{}
}

func (w *watcher) send(line []byte) {
	w.mutex.Lock()
	w.waiting = append(w.waiting, line)
	w.mutex.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) take() [][]byte {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	taken := w.waiting
	w.waiting = nil
	return taken
}

// watch serves changes from now on. What happened between the list and the watch would be lost, so that objects are
// created only once all watches are open (see /stub/state).
func (c *collection) watch(response http.ResponseWriter, request *http.Request) {
	one := &watcher{wake: make(chan struct{}, 1)}
	c.mutex.Lock()
	c.watchers[one] = struct{}{}
	c.mutex.Unlock()
	defer func() {
		c.mutex.Lock()
		delete(c.watchers, one)
		c.mutex.Unlock()
	}()
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(http.StatusOK)
	flusher := response.(http.Flusher)
	flusher.Flush()
	for {
		select {
		case <-request.Context().Done():
			return
		case <-one.wake:
		}
		// As the apiserver does: what waits is written, then flushed once.
		for _, line := range one.take() {
			if _, err := response.Write(line); err != nil {
				return
			}
		}
		flusher.Flush()
	}
}
