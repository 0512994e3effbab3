// Package jsonlines answers requests that come as lines of JSON, one after the other.
package jsonlines

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// Serve reads a request from each line of standard input, and writes the answer to it as a line to standard output.
// It ends the process if that fails. Every fault of a request is an answer, made by failed, so that one bad request does
// not end the process. Name is that of the program, for the error.
func Serve[Request, Answer any](
	name string, answer func(asked Request) (Answer, error), failed func(problem string) Answer,
) {
	if err := serve(os.Stdin, os.Stdout, answer, failed); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func serve[Request, Answer any](
	in io.Reader, out io.Writer, answer func(Request) (Answer, error), failed func(string) Answer,
) error {
	reader := bufio.NewReaderSize(in, 1<<20)
	writer := bufio.NewWriter(out)
	for {
		line, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		encoded, err := json.Marshal(answerLine(line, answer, failed))
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

func answerLine[Request, Answer any](
	line []byte, answer func(Request) (Answer, error), failed func(string) Answer,
) (found Answer) {
	defer func() {
		if fault := recover(); fault != nil {
			found = failed(fmt.Sprintf("panic: %v\n%s", fault, debug.Stack()))
		}
	}()
	var asked Request
	if err := json.Unmarshal(line, &asked); err != nil {
		return failed(fmt.Sprintf("the request cannot be read: %v", err))
	}
	found, err := answer(asked)
	if err != nil {
		return failed(err.Error())
	}
	return found
}
