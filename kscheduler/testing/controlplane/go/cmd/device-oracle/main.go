// Device-oracle answers what kube-scheduler's own allocator of devices does with claims on a cluster given as JSON.
//
// One request a line on standard input, one answer a line on standard output. Requests know nothing of each other, so
// a process can answer thousands; it keeps none of them, only CEL expressions that it has compiled.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
)

func main() {
	klog.SetLogger(klog.Logger{})
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "device-oracle:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<18)
	writer := bufio.NewWriter(out)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		encoded, err := json.Marshal(answerLine(line))
		if err != nil {
			return err
		}
		if _, err := writer.Write(append(encoded, '\n')); err != nil {
			return err
		}
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

// answerLine turns every fault into an answer, so that one bad request does not end the process.
func answerLine(line []byte) (found answer) {
	defer func() {
		if fault := recover(); fault != nil {
			found = answer{Error: fmt.Sprintf("panic: %v\n%s", fault, debug.Stack())}
		}
	}()
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: fmt.Sprintf("the request cannot be read: %v", err)}
	}
	found, err := asked.answer()
	if err != nil {
		return answer{Error: err.Error()}
	}
	return found
}
