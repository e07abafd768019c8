package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// testCase is a case of the suite, as its file describes it.
type testCase struct {
	file, name string // together unique
	run, prog  string // one of them: a shell's line, or a script
	expects    []expect
	timeout    time.Duration
	befores    []string // commands, without a shell, that run beside it
	after      string   // a shell's line that runs once the probes are attached
	setup      string
	cleanup    string
	kernelMin  string
	kernelMax  string
	requires   []string // shell's lines that must succeed
	features   []string // with "!" before those that must not be there
	env        []string
	arch       []string // empty: all
	skipEnv    string   // NAME=VALUE
	willFail   bool
	newPIDNS   bool
	status     int
	localize   time.Time // whose local hour the expected file has; zero: none
}

// expect is what a case wants of its output.
type expect struct {
	mode string // EXPECT, EXPECT_NONE, EXPECT_REGEX, EXPECT_REGEX_NONE, EXPECT_FILE, EXPECT_JSON
	text string
}

// exact reports whether the output has to be what a file has, from the attachment on.
func (c *testCase) exact() bool {
	return slices.ContainsFunc(c.expects, func(e expect) bool {
		return e.mode == "EXPECT_FILE" || e.mode == "EXPECT_JSON"
	})
}

// command returns the line of the shell that runs the case, with what stands for the program.
func (c *testCase) command(program string) string {
	if c.run != "" {
		return strings.ReplaceAll(c.run, "{{BPFTRACE}}", program)
	}
	if len(c.expects) > 0 && c.expects[0].mode == "EXPECT_JSON" {
		program += " -q -f json"
	}
	return program + " -e '" + strings.ReplaceAll(c.prog, "'", `'\''`) + "'"
}

// defaultTimeout is that of cases without TIMEOUT.
const defaultTimeout = 5 * time.Second

// readSuite reads the files of the suite: tests/runtime without the folders that hold other things.
func readSuite(fsys fs.FS) ([]*testCase, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, err
	}
	var all []*testCase
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		text, err := fs.ReadFile(fsys, e.Name())
		if err != nil {
			return nil, err
		}
		cases, err := parseSuite(path.Base(e.Name()), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	if len(all) == 0 {
		return nil, errors.New("no cases")
	}
	return all, nil
}

// parseSuite reads the cases of a file: blocks of directives, between empty lines.
func parseSuite(file, text string) ([]*testCase, error) {
	var cases []*testCase
	var block []string
	seen := map[string]int{}
	start := 0
	end := func() error {
		if len(block) == 0 {
			return nil
		}
		c, err := parseCase(block)
		block = nil
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, start, err)
		}
		c.file = file
		if seen[c.name]++; seen[c.name] > 1 { // each case is a row of its own
			c.name = fmt.Sprintf("%s (%d)", c.name, seen[c.name])
		}
		cases = append(cases, c)
		return nil
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		if line == "" {
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		if len(block) == 0 {
			start = i + 1
		}
		block = append(block, line)
	}
	return cases, end()
}

func parseCase(lines []string) (*testCase, error) {
	c := &testCase{timeout: defaultTimeout}
	word, statusGiven := "", false
	for _, line := range lines {
		// Space as wide as the directive before continues that.
		if indent := len(word) + 1; word != "" && strings.TrimSpace(line[:min(indent, len(line))]) == "" {
			more := "\n" + line[min(indent, len(line)):]
			switch word {
			case "PROG":
				c.prog += more
				continue
			case "EXPECT", "EXPECT_REGEX":
				c.expects[len(c.expects)-1].text += more
				continue
			}
		}
		rest := ""
		word, rest, _ = strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		statusGiven = statusGiven || word == "RETURN_CODE"
		if err := c.set(word, rest); err != nil {
			return nil, err
		}
	}
	switch {
	case c.name == "":
		return nil, errors.New("a case without NAME")
	case (c.run == "") == (c.prog == ""):
		return nil, fmt.Errorf("%s: one of RUN and PROG", c.name)
	case len(c.expects) == 0 && !statusGiven:
		return nil, fmt.Errorf("%s: nothing is expected", c.name)
	case len(c.expects) > 1 && c.exact():
		return nil, fmt.Errorf("%s: a file is expected, and more", c.name)
	case c.newPIDNS && len(c.befores) == 0:
		return nil, fmt.Errorf("%s: NEW_PIDNS without BEFORE", c.name)
	}
	return c, nil
}

// set applies a directive.
func (c *testCase) set(word, rest string) error {
	switch word {
	case "NAME":
		c.name = rest
	case "RUN":
		c.run = rest
	case "PROG":
		c.prog = rest
	case "EXPECT", "EXPECT_NONE", "EXPECT_REGEX", "EXPECT_REGEX_NONE", "EXPECT_FILE", "EXPECT_JSON":
		c.expects = append(c.expects, expect{word, rest})
	case "BEFORE":
		c.befores = append(c.befores, rest)
	case "AFTER":
		c.after = rest
	case "SETUP":
		c.setup = rest
	case "CLEANUP":
		c.cleanup = rest
	case "MIN_KERNEL":
		c.kernelMin = rest
	case "MAX_KERNEL":
		c.kernelMax = rest
	case "REQUIRES":
		c.requires = append(c.requires, rest)
	case "REQUIRES_FEATURE":
		c.features = append(c.features, strings.Fields(rest)...)
	case "ENV":
		c.env = append(c.env, strings.Fields(rest)...)
	case "ARCH":
		for a := range strings.SplitSeq(rest, "|") {
			c.arch = append(c.arch, strings.TrimSpace(a))
		}
	case "SKIP_IF_ENV_HAS":
		c.skipEnv = rest
	case "WILL_FAIL":
		c.willFail = true
	case "NEW_PIDNS":
		c.newPIDNS = true
	case "TIMEOUT", "RETURN_CODE", "LOCALIZE_TIMESTAMPS":
		n, err := strconv.Atoi(rest)
		if err != nil {
			return fmt.Errorf("%s %q: %w", word, rest, errors.Unwrap(err))
		}
		switch word {
		case "TIMEOUT":
			c.timeout = time.Duration(n) * time.Second
		case "RETURN_CODE":
			c.status = n
		default:
			c.localize = time.Unix(int64(n), 0)
		}
	default:
		return fmt.Errorf("%s is no directive", word)
	}
	return nil
}
