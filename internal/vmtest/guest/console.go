package guest

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/borescope/borescope/internal/testlog"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

// console processes the guest's output.
type console struct {
	log     io.Writer
	stands  func() // called when a CPU's timer no longer fires; may be nil
	partial []byte
	lines   []string // the last few
	r       Report
	parsers []testlog.Parser
	current int // the running job, or -1
}

func newConsole(jobs []wire.Job, log io.Writer) *console {
	c := &console{log: log, current: -1, parsers: make([]testlog.Parser, len(jobs))}
	for _, j := range jobs {
		c.r.Jobs = append(c.r.Jobs, JobReport{Name: j.Name, Status: "unfinished"})
	}
	return c
}

// Write processes the next piece. It fails only if writing to the log does.
func (c *console) Write(b []byte) (int, error) {
	c.partial = append(c.partial, b...)
	for {
		i := bytes.IndexByte(c.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		if err := c.line(strings.TrimRight(string(c.partial[:i]), "\r")); err != nil {
			return 0, err
		}
		c.partial = c.partial[i+1:]
	}
}

// line processes one line. It writes the lines of jobs and of the kernel to the log.
func (c *console) line(s string) error {
	c.lines = append(c.lines, s)
	if len(c.lines) > 30 {
		c.lines = c.lines[1:]
	}
	if word, rest, _ := strings.Cut(s, " "); strings.HasPrefix(word, "@vmtest-") {
		c.control(word, rest)
		return nil
	}
	if t := fatal(s); t != "" && c.r.Trouble == "" {
		c.r.Trouble = t
	}
	if lostTimer(s) {
		c.r.Trouble = "a CPU's timer never fires: " + s
		if c.stands != nil {
			c.stands()
		}
	}
	if c.current >= 0 {
		fmt.Fprintln(&c.parsers[c.current], s)
	}
	if c.log == nil || c.r.Release == "" && c.r.Trouble == "" {
		return nil // the firmware's greeting is not needed
	}
	_, err := fmt.Fprintln(c.log, s)
	return err
}

// fatal returns s if it is the headline of a kernel that has crashed, "" otherwise. It checks
// for the kernel's time stamp in front, because tests may print such words too.
func fatal(s string) string {
	if !strings.HasPrefix(s, "[") {
		return ""
	}
	for _, t := range []string{
		"Kernel panic", "Oops", "BUG: ", "general protection fault",
		"Unable to handle kernel", "soft lockup", "rcu: INFO",
	} {
		if strings.Contains(s, t) {
			return s
		}
	}
	return ""
}

// lostTimer reports whether s is the kernel's line about a CPU with a timer that was set and
// never fired: since Linux 5.11 (kernel/rcu/tree_stall.h), after 21 seconds. Such a CPU sets
// no timer again, because the kernel considers the next one set.
func lostTimer(s string) bool {
	return strings.HasPrefix(s, "[") &&
		strings.Contains(s, "rcu: \tPossible timer handling issue on cpu=")
}

func (c *console) control(word, rest string) {
	switch word {
	case wire.Ready:
		c.r.Release = rest
		return
	case wire.Error:
		c.r.Trouble = rest
		return
	}
	number, rest, _ := strings.Cut(rest, " ")
	i, err := strconv.Atoi(number)
	if err != nil || i < 0 || i >= len(c.r.Jobs) {
		return
	}
	j := &c.r.Jobs[i]
	switch word {
	case wire.Begin:
		c.current = i
	case wire.Left:
		j.Left = append(j.Left, rest)
	case wire.Warn:
		j.Warnings = append(j.Warnings, rest)
	case wire.End:
		status, took, _ := strings.Cut(rest, " ")
		seconds, _ := strconv.ParseFloat(took, 64)
		j.Status, j.Took = status, time.Duration(seconds*float64(time.Second))
		c.current = -1
	}
}

// report returns the report, which is complete once the guest has ended.
func (c *console) report() *Report {
	for i := range c.r.Jobs {
		c.r.Jobs[i].Tests, c.r.Jobs[i].Tail = c.parsers[i].Results(), c.parsers[i].Tail()
	}
	return &c.r
}

// tail returns the last lines that the guest printed.
func (c *console) tail() string { return strings.Join(append(c.lines, string(c.partial)), "\n") }
