package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/testlog"
)

// cell is the result of a tool in a place: a word, and the reason.
type cell struct{ word, why string }

func (c cell) String() string { return strings.TrimSuffix(c.word+": "+c.why, ": ") }

// absent matches the cause of a test that needs a program that is not installed.
var absent = regexp.MustCompile(`^(tool \S+|go): not found$`)

// kernelsFault returns those causes of a skipped test that concern the kernel or the machine.
// It removes the requirement to run in a guest, which is our own rule: the tool may work.
func kernelsFault(reason string) string {
	causes := slices.DeleteFunc(strings.Split(reason, "; "), func(s string) bool {
		return strings.HasPrefix(s, testenv.Guest.String()+": ")
	})
	return strings.Join(causes, "; ")
}

// verdict returns the cell for the results of a tool's live tests.
func verdict(results []testlog.Result) (c cell, failed bool) {
	var passed int
	var bad, whys, untried []string
	for _, r := range results {
		if strings.Contains(r.Name, "/") {
			continue // a subtest
		}
		switch r.Status {
		case testlog.Pass:
			passed++
		case testlog.Fail:
			bad = append(bad, r.Name)
		case testlog.Skip:
			reason := strings.TrimPrefix(r.Reason, testenv.SkipPrefix)
			if why := kernelsFault(reason); why != "" {
				whys = append(whys, why)
			} else {
				untried = append(untried, reason)
			}
		}
	}
	word := "no"
	if passed > 0 { // the test needs the program, not the tool
		whys = slices.DeleteFunc(whys, absent.MatchString)
		word = "in part"
	} else if len(whys) == 0 {
		word = "untried"
	}
	if word != "no" {
		whys = append(whys, untried...)
	}
	slices.Sort(whys)
	why := strings.Join(slices.Compact(whys), "; ")
	switch {
	case len(bad) > 0:
		return cell{"fails", strings.Join(bad, ", ")}, true
	case len(whys) > 0:
		return cell{word, why}, false
	case passed > 0:
		return cell{"works", ""}, false
	}
	return cell{"fails", "no test ran"}, true
}

// page is examples/KERNELS.md: the text before the table, which is kept, and the table by tool
// and place.
type page struct {
	head  string
	cells map[string]map[string]cell
}

var (
	row  = regexp.MustCompile(`^\| \[([\w-]+)\]\([\w-]+\) \|(.*)\|$`)
	mark = regexp.MustCompile(`^(.*?)(?: \((\d+)\))?$`)
	note = regexp.MustCompile(`^(\d+)\. (.*)$`)
)

// readPage reads the page. It returns a new one if the file does not exist.
func readPage(file string) (*page, error) {
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parsePage(string(b)), nil
}

func parsePage(text string) *page {
	p := &page{cells: map[string]map[string]cell{}}
	p.head, _, _ = strings.Cut(text, "\n| tool |")
	notes := map[string]string{}
	for line := range strings.Lines(strings.TrimPrefix(text, p.head)) {
		if m := note.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			notes[m[1]] = m[2]
		}
	}
	for line := range strings.Lines(text) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		for i, text := range strings.Split(m[2], "|") {
			parts := mark.FindStringSubmatch(strings.TrimSpace(text))
			if i < len(places) && parts[1] != "" {
				p.set(m[1], places[i], cell{parts[1], notes[parts[2]]})
			}
		}
	}
	return p
}

func (p *page) set(tool, place string, c cell) {
	if p.cells[tool] == nil {
		p.cells[tool] = map[string]cell{}
	}
	p.cells[tool][place] = c
}

// String returns the page. Reasons are notes, numbered in the order of the table.
func (p *page) String() string {
	var b strings.Builder
	b.WriteString(p.head + "\n| tool |")
	for _, place := range places {
		fmt.Fprintf(&b, " %s |", place)
	}
	b.WriteString("\n" + strings.Repeat("|---", len(places)+1) + "|\n")
	var notes []string
	for _, tool := range slices.Sorted(maps.Keys(p.cells)) {
		fmt.Fprintf(&b, "| [%s](%s) |", tool, tool)
		for _, place := range places {
			c := p.cells[tool][place]
			text := c.word
			if c.why != "" {
				i := slices.Index(notes, c.why)
				if i < 0 {
					i = len(notes)
					notes = append(notes, c.why)
				}
				text = fmt.Sprintf("%s (%d)", c.word, i+1)
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, why := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, why)
	}
	return b.String()
}

func (p *page) write(file string) error { return os.WriteFile(file, []byte(p.String()), 0o644) }
