package main

import (
	"testing"

	"github.com/borescope/borescope/internal/testlog"
)

// A page that is read and written again is the same, and a cell that is run again
// is the only one that changes; notes that nothing refers to go.
func TestPage(t *testing.T) {
	const text = `# Title

What it is.

| tool | native | 5.10 | 6.1 | 6.12 | arm64-6.12 |
|---|---|---|---|---|---|
| [a](a) | no (1) | works | works | works |  |
| [b](b) | in part (2) | works | no (1) | fails (3) | works |

1. kprobe: CONFIG_KPROBES is not set
2. some: thing; another (really)
3. TestLive
`
	p := parsePage(text)
	if got := p.String(); got != text {
		t.Errorf("written again:\n%s", got)
	}
	p.set("b", "native", cell{"works", ""})
	p.set("b", "6.12", cell{"works", ""})
	p.set("a", "arm64-6.12", cell{"no", "some: other"})
	const want = `# Title

What it is.

| tool | native | 5.10 | 6.1 | 6.12 | arm64-6.12 |
|---|---|---|---|---|---|
| [a](a) | no (1) | works | works | works | no (2) |
| [b](b) | works | works | no (1) | works | works |

1. kprobe: CONFIG_KPROBES is not set
2. some: other
`
	if got := p.String(); got != want {
		t.Errorf("after three runs:\n%s", got)
	}
}

func TestVerdict(t *testing.T) {
	pass, fail := testlog.Result{Name: "TestLive", Status: testlog.Pass}, testlog.Result{Name: "TestLiveX", Status: testlog.Fail}
	skip := testlog.Result{Name: "TestLiveY", Status: testlog.Skip, Reason: "SKIP-NEED: kprobe: not here"}
	program := testlog.Result{Name: "TestLiveZ", Status: testlog.Skip, Reason: "SKIP-NEED: tool perf: not found"}
	// Tests for guests only were a kernel's lack, in the notes of its true ones too.
	guest := testlog.Result{Name: "TestLiveG", Status: testlog.Skip, Reason: "SKIP-NEED: guest: not in one"}
	both := testlog.Result{Name: "TestLiveB", Status: testlog.Skip, Reason: "SKIP-NEED: guest: not in one; kprobe: not here; /dev/vda: no"}
	sub := testlog.Result{Name: "TestLive/part", Status: testlog.Skip, Reason: "part"}
	for _, c := range []struct {
		results []testlog.Result
		want    string
		failed  bool
	}{
		{[]testlog.Result{pass, sub}, "works", false},
		{[]testlog.Result{pass, skip}, "in part: kprobe: not here", false},
		{[]testlog.Result{pass, program}, "works", false},
		{[]testlog.Result{program}, "no: tool perf: not found", false},
		{[]testlog.Result{skip, skip}, "no: kprobe: not here", false},
		{[]testlog.Result{pass, skip, fail}, "fails: TestLiveX", true},
		{[]testlog.Result{guest}, "untried: guest: not in one", false},
		{[]testlog.Result{both}, "no: kprobe: not here; /dev/vda: no", false},
		{[]testlog.Result{guest, skip}, "no: kprobe: not here", false},
		{[]testlog.Result{pass, guest}, "in part: guest: not in one", false},
		{[]testlog.Result{pass, guest, fail}, "fails: TestLiveX", true},
		{nil, "fails: no test ran", true},
	} {
		if got, failed := verdict(c.results); got.String() != c.want || failed != c.failed {
			t.Errorf("%v: %s, %v", c.results, got, failed)
		}
	}
}
