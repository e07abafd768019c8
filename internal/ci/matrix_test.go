package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testlog"
)

func TestParseMatrix(t *testing.T) {
	m, err := parseMatrix(strings.NewReader(`# comment
$a = 5.10 6.12
$b = $a arm64-6.1
probe  native $b   # and more
probe:TestX 6.12
mapx   5.10 ~6.12
pmc    ~7.2
`), false)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"native", "5.10", "6.12", "arm64-6.1"}; !slices.Equal(m["probe"], want) {
		t.Errorf("probe: %v", m["probe"])
	}
	if got := m.guestColumns(); !slices.Equal(got, []string{"5.10", "6.12", "arm64-6.1"}) {
		t.Errorf("guests %v", got)
	}
	if got := m["pmc"]; len(got) != 0 {
		t.Errorf("pmc, which is for later: %v", got)
	}
	if got := m.packagesFor("6.12"); !slices.Equal(got, []string{"probe"}) {
		t.Errorf("packages on 6.12: %v", got)
	}
	for _, bad := range []string{"probe", "probe 4.19", "probe $none", "probe 6.1\nprobe 6.1", "$x = 9.9", "probe ~4.19"} {
		if _, err := parseMatrix(strings.NewReader(bad), true); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestBroken: what is declared and did not run must be found, or the whole
// check is worth nothing.
func TestBroken(t *testing.T) {
	m, err := parseMatrix(strings.NewReader(
		"ok 6.12\nskipped 6.12\nmissing 6.12\nok:TestA 6.12\nok:TestB 6.12\nelsewhere 6.1\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	tab := newTable(m)
	set := func(pkg string, rs ...testlog.Result) {
		tab.set(pkg, "6.12", cell{counts: testlog.Count(rs), results: rs})
	}
	set("ok", testlog.Result{Name: "TestA", Status: testlog.Pass}, testlog.Result{Name: "TestB", Status: testlog.Skip, Reason: "SKIP-NEED: kprobe: CONFIG_KPROBES is not set"})
	set("skipped", testlog.Result{Name: "TestA", Status: testlog.Skip, Reason: "not today"})
	want := []string{
		"missing on 6.12: declared to run, but it did not",
		"ok:TestB on 6.12: declared to pass, but it did not",
		"skipped on 6.12: declared to run, but no test passed",
		"skipped:TestA on 6.12: skipped without a proven cause, use testenv.Need: not today",
	}
	if got := tab.broken("6.12"); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var b strings.Builder
	tab.print(&b)
	for _, want := range []string{"1 (1s)", "ok: kprobe: CONFIG_KPROBES is not set (1× on 6.12)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// TestPassedHere: a guest that this machine stands for runs what was skipped here, even in part,
// what failed, and what is declared for it by name.
func TestPassedHere(t *testing.T) {
	m, err := parseMatrix(strings.NewReader("a 7.2\na:TestNamed 7.2 6.1\nb 7.2\nb:TestOld 5.10\nc 7.2\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	tab := newTable(m)
	set := func(pkg string, results ...string) {
		var rs []testlog.Result
		for _, r := range results {
			name, status, _ := strings.Cut(r, " ")
			rs = append(rs, testlog.Result{Name: name, Status: testlog.Status(status)})
		}
		tab.set(pkg, "native", cell{counts: testlog.Count(rs), results: rs})
	}
	set("a", "TestPart/x PASS", "TestPart/y SKIP", "TestPart PASS", "TestNamed PASS", "TestWhole/x PASS",
		"TestWhole PASS", "TestSkipped SKIP", "ExampleA PASS")
	set("b", "TestOld PASS", "TestNew PASS")
	set("c", "TestBad FAIL")
	got := tab.passedHere("7.2")
	for pkg, want := range map[string]here{
		"a": {tests: []string{"TestWhole", "ExampleA"}},
		"b": {tests: []string{"TestOld", "TestNew"}, all: true},
		"c": {},
	} {
		if h := got[pkg]; h.all != want.all || !slices.Equal(h.tests, want.tests) {
			t.Errorf("%s: %+v", pkg, h)
		}
	}
	tab.set("b", "7.2", cell{here: 2})
	broken := tab.broken("7.2")
	if slices.ContainsFunc(broken, func(s string) bool { return strings.HasPrefix(s, "b ") }) || len(broken) != 3 {
		t.Errorf("%q", broken)
	}
	if s := tab.cellText("b", "7.2"); s != "0+2" {
		t.Error(s)
	}
}

func TestOnlyFor(t *testing.T) {
	m, err := parseMatrix(strings.NewReader("a 6.12\na:TestX 6.12 6.1\na:TestY 6.1\nb 6.1\nb:TestZ native\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.onlyFor("6.12"); len(got) != 0 {
		t.Errorf("6.12: %v", got)
	}
	if got := m.onlyFor("6.1"); len(got) != 1 || got["a"] != "^(TestX|TestY)$" {
		t.Errorf("6.1: %v", got)
	}
}

// TestNamed: columns whose tests run by name name them all.
func TestNamed(t *testing.T) {
	m, err := parseMatrix(strings.NewReader("a:TestY container\nb:TestX container\nb:TestY container bare\nc bare\n"), false)
	if err != nil {
		t.Fatal(err)
	}
	if tests, err := m.testsFor("container"); err != nil || !slices.Equal(tests, []string{"TestX", "TestY"}) {
		t.Errorf("%v, %v", tests, err)
	}
	if tests, err := m.testsFor("bare"); err == nil {
		t.Errorf("a whole package is none by name: %v", tests)
	}
	if m, err = readMatrix(filepath.Join("..", "..", ".ci", "matrix.txt"), true); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"container", "container-user"} {
		if tests, err := m.testsFor(column); err != nil || len(tests) < 4 {
			t.Errorf("%s: %v, %v", column, tests, err)
		}
	}
}
