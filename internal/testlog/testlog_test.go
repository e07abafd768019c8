package testlog_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testlog"
)

const sample = `=== RUN   TestA
    a_test.go:10: some log
--- PASS: TestA (0.00s)
=== RUN   TestB
=== RUN   TestB/one
    a_test.go:20: first
    a_test.go:21: SKIP-NEED: kprobe: CONFIG_KPROBES is not set
=== RUN   TestB/two
    a_test.go:22: wrong
--- FAIL: TestB (0.01s)
    --- SKIP: TestB/one (0.00s)
    --- FAIL: TestB/two (0.00s)
=== RUN   TestC
=== PAUSE TestC
=== CONT  TestC
=== NAME  TestC
    b_test.go:1: not now
--- SKIP: TestC (1.25s)
=== CONT  TestD
=== CONT  TestE
    b_test.go:2: SKIP-NEED: tool perf: not found
--- SKIP: TestD (0.00s)
--- PASS: TestE (0.00s)
=== RUN   ExampleX
--- PASS: ExampleX (0.00s)
FAIL
`

func TestParser(t *testing.T) {
	want := []testlog.Result{
		{Name: "TestA", Status: testlog.Pass},
		{Name: "TestB", Status: testlog.Fail, Took: 10 * time.Millisecond},
		{Name: "TestB/one", Status: testlog.Skip, Reason: "SKIP-NEED: kprobe: CONFIG_KPROBES is not set"},
		{Name: "TestB/two", Status: testlog.Fail, Output: "    a_test.go:22: wrong"},
		{Name: "TestC", Status: testlog.Skip, Took: 1250 * time.Millisecond, Reason: "not now"},
		{Name: "TestD", Status: testlog.Skip, Reason: "SKIP-NEED: tool perf: not found"},
		{Name: "TestE", Status: testlog.Pass},
		{Name: "ExampleX", Status: testlog.Pass},
	}
	for _, size := range []int{1, 7, len(sample)} {
		var p testlog.Parser
		for piece := range slices.Chunk([]byte(sample), size) {
			p.Write(piece)
		}
		if !strings.HasSuffix(p.Tail(), "--- PASS: ExampleX (0.00s)\nFAIL") {
			t.Errorf("the tail is %q", p.Tail())
		}
		if !slices.Equal(p.Results(), want) {
			t.Errorf("in pieces of %d: %+v", size, p.Results())
		}
	}
	if c := testlog.Count(want); c != (testlog.Counts{Passed: 3, Failed: 2, Skipped: 3}) {
		t.Errorf("counted %+v", c)
	}
}
