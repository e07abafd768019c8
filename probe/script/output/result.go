package output

import (
	"fmt"
	"strings"
	"time"
)

// Test is the result of a test.
type Test struct {
	Name string
	// Time is how long it took, with the handling of what it printed.
	Time   time.Duration
	Failed bool
	Text   string // that it printed
}

// Bench is the result of a bench: the time of a run, and how many there were.
type Bench struct {
	Name    string
	Average time.Duration
	Runs    int
}

// record returns fields as a line of JSON has them.
func record(name string, fields ...Field) Record { return Record{{Name: name, Value: Record(fields)}} }

// Test prints the result of test i of all; what the text of the last one ends with counts all. Text that a test
// printed is shown if it has failed.
func (p *Printer) Test(all []Test, i int) error {
	t := &all[i]
	if p.o.JSON {
		return p.line("test_result", record(t.Name, Field{"duration", int64(t.Time)}, Field{"passed", !t.Failed},
			Field{"output", t.Text}))
	}
	var b strings.Builder
	if i == 0 {
		fmt.Fprintf(&b, "[==========] Running %d tests.\n", len(all))
	}
	fmt.Fprintf(&b, "[ RUN      ] %s\n", t.Name)
	state := "[       OK ]"
	if t.Failed {
		state = "[  FAILED  ]"
		for line := range strings.Lines(t.Text) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				b.WriteString(line + "\n")
			}
		}
	}
	fmt.Fprintf(&b, "%s %s (%v)\n", state, t.Name, t.Time.Round(time.Microsecond))
	if i == len(all)-1 {
		summary(&b, all)
	}
	return p.write([]byte(b.String()))
}

// summary counts tests, and lists those that have failed.
func summary(b *strings.Builder, all []Test) {
	var failed []string
	for _, t := range all {
		if t.Failed {
			failed = append(failed, t.Name)
		}
	}
	fmt.Fprintf(b, "[==========] %s ran.\n[  PASSED  ] %s.\n", tests(len(all)), tests(len(all)-len(failed)))
	if len(failed) == 0 {
		return
	}
	fmt.Fprintf(b, "[  FAILED  ] %s, listed below:\n", tests(len(failed)))
	for _, name := range failed {
		b.WriteString("[  FAILED  ] " + name + "\n")
	}
}

func tests(n int) string {
	if n == 1 {
		return "1 test"
	}
	return fmt.Sprint(n, " tests")
}

// Bench prints the result of bench i of all.
func (p *Printer) Bench(all []Bench, i int) error {
	r := &all[i]
	if p.o.JSON {
		return p.line("benchmark_result", record(r.Name, Field{"average", int64(r.Average)}, Field{"iters", int64(r.Runs)}))
	}
	width := 40
	for _, r := range all {
		width = max(width, len(r.Name))
	}
	line := func(name, time, runs any) string { return fmt.Sprintf("%-*v%-15v%v\n", width+1, name, time, runs) }
	text := line(r.Name, int64(r.Average), r.Runs)
	if i == 0 {
		head := line("Benchmark", "Time(ns)", "Iterations")
		text = head + strings.Repeat("-", len(head)-1) + "\n" + text
	}
	return p.write([]byte(text))
}
