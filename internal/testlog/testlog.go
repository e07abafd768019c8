// Package testlog parses the output of a test binary with -test.v, so that runs on this
// machine and in guests are counted in the same way.
package testlog

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Status is the outcome of a test.
type Status string

// These are the outcomes of a test, as in "--- STATUS: Name".
const (
	Pass Status = "PASS"
	Fail Status = "FAIL"
	Skip Status = "SKIP"
)

// Result is one test, subtest, example or fuzz target.
type Result struct {
	Name   string
	Status Status
	// Took is its running time, to the hundredth of a second.
	Took time.Duration
	// Reason is the last line that a skipped test logged.
	Reason string
	// Output is the end of a failed test's output.
	Output string
}

// Counts contains numbers of results.
type Counts struct{ Passed, Failed, Skipped int }

// Add adds c2 to c.
func (c *Counts) Add(c2 Counts) {
	c.Passed += c2.Passed
	c.Failed += c2.Failed
	c.Skipped += c2.Skipped
}

// Count counts the results by status.
func Count(rs []Result) Counts {
	var c Counts
	for _, r := range rs {
		switch r.Status {
		case Pass:
			c.Passed++
		case Fail:
			c.Failed++
		case Skip:
			c.Skipped++
		}
	}
	return c
}

// Parser parses the output of one test binary, written to it in pieces of any size.
type Parser struct {
	partial []byte
	current string              // the test that prints now
	reason  map[string]string   // the last line that each test logged
	logged  string              // what the previous line logged, "" if it is no log line
	printed map[string][]string // the last lines that each test printed
	tail    []string            // the last lines of all output
	results []Result
}

// kept is the number of lines that are kept, of each test's output and of all output.
const kept = 60

var (
	endLine  = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)`)
	nameLine = regexp.MustCompile(`^=== (?:RUN|CONT|NAME|PAUSE)\s+(\S*)`)
	logLine  = regexp.MustCompile(`^\s+\S+\.go:\d+: (.*)`)
)

// Write parses the next piece. It never fails.
func (p *Parser) Write(b []byte) (int, error) {
	p.partial = append(p.partial, b...)
	for {
		i := bytes.IndexByte(p.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		p.line(strings.TrimRight(string(p.partial[:i]), "\r"))
		p.partial = p.partial[i+1:]
	}
}

func (p *Parser) line(s string) {
	if p.reason == nil {
		p.reason, p.printed = map[string]string{}, map[string][]string{}
	}
	p.tail = keep(p.tail, s)
	before := p.logged
	p.logged = ""
	if m := endLine.FindStringSubmatch(s); m != nil {
		took, _ := strconv.ParseFloat(m[3], 64)
		p.end(m[2], Status(m[1]), time.Duration(took*float64(time.Second)), before)
		return
	}
	if m := nameLine.FindStringSubmatch(s); m != nil {
		p.current = m[1]
		return
	}
	if m := logLine.FindStringSubmatch(s); m != nil {
		p.reason[p.current], p.logged = m[1], m[1]
	}
	p.printed[p.current] = keep(p.printed[p.current], s)
}

// end records a result. before is what the line before it logged: if tests run in parallel, a
// skip's last line may follow the name of another test.
func (p *Parser) end(name string, status Status, took time.Duration, before string) {
	r := Result{Name: name, Status: status, Took: took}
	switch status {
	case Skip:
		if r.Reason = p.reason[name]; r.Reason == "" {
			r.Reason = before
		}
	case Fail:
		r.Output = strings.Join(p.printed[name], "\n")
	}
	delete(p.printed, name)
	p.results = append(p.results, r)
}

func keep(lines []string, s string) []string {
	if len(lines) >= kept {
		lines = lines[1:]
	}
	return append(lines, s)
}

// Tail returns the end of all output, for a binary that ended in another way than with a
// failed test.
func (p *Parser) Tail() string { return strings.Join(p.tail, "\n") }

// Results returns the tests that have ended, in the order in which they did.
func (p *Parser) Results() []Result { return p.results }
