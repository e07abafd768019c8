// Package examples_test keeps the page of the tools true.
package examples_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every tool is in README.md, and what is there is a tool.
func TestEveryToolIsListed(t *testing.T) {
	page := read(t, "README.md")
	var tools, listed []string
	mains, err := filepath.Glob("*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("tools: %v, %v", mains, err)
	}
	for _, m := range mains {
		tools = append(tools, filepath.Dir(m))
	}
	for _, m := range regexp.MustCompile(`\[(\w+)\]\((\w+)\)`).FindAllStringSubmatch(page, -1) {
		if m[1] != m[2] {
			t.Errorf("%s leads to %s", m[1], m[2])
		}
		listed = append(listed, m[2])
	}
	for _, name := range tools {
		if !slices.Contains(listed, name) {
			t.Errorf("README.md does not list %s", name)
		}
	}
	for _, name := range listed {
		if !slices.Contains(tools, name) {
			t.Errorf("README.md lists %s, which is no tool", name)
		}
	}
}

// Commands name a tool. The tracers' own tests parse their flags
// (tooltest.CommandLine); of the other programs the page shows only -h.
func TestCommandsAreOfTools(t *testing.T) {
	commands := regexp.MustCompile("(?m)go run (?:-exec sudo )?\\./examples/(\\w+)([^`\n]*)").FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(commands) < 40 {
		t.Errorf("%d commands", len(commands))
	}
	for _, c := range commands {
		name, args := c[1], strings.TrimSpace(c[2])
		tests, err := filepath.Glob(filepath.Join(name, "*_test.go"))
		if err != nil || len(tests) == 0 {
			t.Errorf("%s: no tests, %v", c[0], err)
		}
		parsed := slices.ContainsFunc(tests, func(file string) bool {
			return strings.Contains(read(t, file), `tooltest.CommandLine(t, "`+name+`", run)`)
		})
		if !parsed && args != "-h" && args != "" {
			t.Errorf("%s: nobody tests these arguments", c[0])
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
