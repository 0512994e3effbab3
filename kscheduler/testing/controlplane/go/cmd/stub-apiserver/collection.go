package main

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Before the end of a watch, as in the apiserver, which sends no bookmark to shorter ones.
const bookmarkBeforeEnd = 2 * time.Second

// collection is the objects of one kind and who watches them. Its methods may be called from any goroutine.
type collection struct {
	mutex    sync.Mutex
	kind     string
	version  *counter
	objects  map[string]*object
	order    []string // names, as created
	watchers map[*watcher]struct{}
	changed  uint64 // version of the last change
	shown    uint64 // version of the last change that watchers have seen
	holding  bool   // whether watchers learn of changes only later
	held     [][]byte
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
	version := c.version.next()
	one := made(version)
	c.objects[name] = one
	c.order = append(c.order, name)
	c.tell("ADDED", version, one.text)
}

// tell must be called with the lock held, so that all watchers see changes in one order.
func (c *collection) tell(event string, version uint64, text []byte) {
	c.changed = version
	line := make([]byte, 0, len(text)+40)
	line = append(line, `{"type":"`...)
	line = append(line, event...)
	line = append(line, `","object":`...)
	line = append(line, text...)
	line = append(line, "}\n"...)
	c.held = append(c.held, line)
	if !c.holding {
		c.send()
	}
}

// send must be called with the lock held.
func (c *collection) send() {
	for each := range c.watchers {
		each.send(c.held...)
	}
	c.held, c.shown = nil, c.changed
}

// show tells watchers at once of all changes that are held, and whether later ones are to be held.
func (c *collection) show(holdsNext bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.holding = holdsNext
	c.send()
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

// bookmark returns the line that tells a watcher up to which version it knows everything, if it knew so at `known`.
func (c *collection) bookmark(known uint64) []byte {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return fmt.Appendf(nil, `{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"v1","metadata":{"resourceVersion":"%d","creationTimestamp":null}}}`+"\n", c.kind, max(known, c.shown))
}

// watcher is one open watch: lines wait here until its connection takes them.
type watcher struct {
	mutex   sync.Mutex
	waiting [][]byte
	wake    chan struct{}
}

func (w *watcher) send(lines ...[]byte) {
	w.mutex.Lock()
	w.waiting = append(w.waiting, lines...)
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

// watch serves changes from now on, for as long as it is asked to, and a bookmark shortly before it ends. Who has missed any before is refused with 410 Gone, as by an apiserver that no longer
// knows them, and lists again.
func (c *collection) watch(response http.ResponseWriter, request *http.Request) {
	known, _ := strconv.ParseUint(request.URL.Query().Get("resourceVersion"), 10, 64)
	one := &watcher{wake: make(chan struct{}, 1)}
	c.mutex.Lock()
	if shown := c.shown; known < shown {
		c.mutex.Unlock()
		response.Header().Set("Content-Type", "application/json")
		response.WriteHeader(http.StatusGone)
		fmt.Fprintf(response, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"version %d is too old, the last change shown is %d","code":410}`, known, shown)
		return
	}
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
	var end, bookmark <-chan time.Time // never, if no time is asked for
	if seconds, _ := strconv.Atoi(request.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		lasts := time.Duration(seconds) * time.Second
		end = time.After(lasts)
		if lasts > bookmarkBeforeEnd {
			bookmark = time.After(lasts - bookmarkBeforeEnd)
		}
	}
	for {
		select {
		case <-request.Context().Done():
			return
		case <-end:
			return
		case <-bookmark:
			one.send(c.bookmark(known))
			continue
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
