package probe

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFeatures: FEATURES.md claims nothing without a test of that name.
func TestFeatures(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Skip("no sources here") // a guest has only the binary
	}
	tests := map[string]bool{}
	decl := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range decl.FindAllSubmatch(b, -1) {
			tests[string(m[1])] = true
		}
	}
	b, err := os.ReadFile("FEATURES.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 5 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Capability") {
			continue
		}
		rows++
		claim, proof := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[len(cells)-1])
		if proof == "" && claim != "N" && !strings.Contains(cells[0], "no cgo") {
			t.Errorf("%s: %q without proof", strings.TrimSpace(cells[0]), claim)
		}
		for name := range strings.SplitSeq(proof, ",") {
			if name = strings.TrimSpace(name); name != "" && !tests[name] {
				t.Errorf("%s: there is no %s", strings.TrimSpace(cells[0]), name)
			}
		}
	}
	if rows < 50 {
		t.Errorf("only %d rows", rows)
	}
}
