package probe

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

// testsIn notes the tests of this package, or those of one below it as DIR.TestX.
// One that only skips is none.
func testsIn(t *testing.T, dir string, tests map[string]bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests in %q: %v", dir, err)
	}
	decl := regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{(.*?)^\}`)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range decl.FindAllSubmatch(b, -1) {
			full := string(m[1])
			if dir != "" {
				full = dir + "." + full
			}
			// A proof asserts: by itself, or by a helper that it hands t to.
			tests[full] = regexp.MustCompile(`t\.(Error|Fatal)|\(t[,)]`).Match(m[2])
		}
	}
}

// TestFeatures: FEATURES.md claims nothing without a test of that name, and
// everything that others claim.
func TestFeatures(t *testing.T) {
	testenv.Need(t, testenv.File("FEATURES.md")) // a guest has only the binary
	tests := map[string]bool{}
	for _, dir := range []string{"", "broker", "container", "deploy", "internal/usercode", "internal/userfile"} {
		testsIn(t, dir, tests)
	}
	b, err := os.ReadFile("FEATURES.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(b)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 3 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| Capability") {
			continue
		}
		rows++
		claim, proof := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[len(cells)-1])
		if len(cells) > 3 && !strings.HasPrefix(claim, "Y") { // next to others
			t.Errorf("%s: %q, which others can", strings.TrimSpace(cells[0]), claim)
		}
		if proof == "" && claim != "N" && !strings.Contains(cells[0], "no cgo") {
			t.Errorf("%s: %q without proof", strings.TrimSpace(cells[0]), claim)
		}
		for name := range strings.SplitSeq(proof, ",") {
			if name = strings.TrimSpace(name); name != "" && !tests[name] {
				t.Errorf("%s: there is no %s, or it asserts nothing", strings.TrimSpace(cells[0]), name)
			}
		}
	}
	if rows < 50 {
		t.Errorf("only %d rows", rows)
	}
}
