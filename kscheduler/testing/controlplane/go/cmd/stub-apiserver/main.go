// Command stub-apiserver answers a scheduler as an apiserver does, at next to no cost: it keeps nodes and pods as
// prepared texts, and nothing else. It shows what a scheduler's own process can do when the apiserver is no limit.
//
// It serves lists and watches of nodes and pods as JSON over TLS, takes bindings and Events as protobuf, answers every
// other list with nothing and every other watch with a bookmark before its end. It checks what it can: a pod is bound once, to a node
// that is there, by the uid it has. It prints its port and serves until its standard input is closed.
//
// Beside the API there are paths for whoever measures: POST /stub/nodes and /stub/pods create objects from texts,
// /stub/delete-pods deletes pods by name, GET /stub/state counts, POST /stub/forget-pods removes all pods.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
)

func main() {
	certificate := flag.String("cert", "", "file of the serving certificate")
	key := flag.String("key", "", "file of its key")
	flag.Parse()
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatalf("reading the serving certificate: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatalf("listening: %v", err)
	}
	server := &http.Server{Handler: newAPI(), ErrorLog: log.New(io.Discard, "", 0)}
	// HTTP/1.1 only, which is what kscheduler speaks.
	tlsListener := tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	log.Fatal(server.Serve(tlsListener))
}
