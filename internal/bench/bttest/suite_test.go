package main

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const someCases = `# a comment, which ends nothing
NAME two lines
PROG begin { printf("it's"); }
# in the middle of a case
     end { }
EXPECT one
       two
TIMEOUT 7
BEFORE ./testprogs/a
BEFORE ./testprogs/b  c
REQUIRES_FEATURE btf !fentry

NAME a line
RUN {{BPFTRACE}} -l | cat
EXPECT_REGEX_NONE ^x{2000}$
ENV A=1 B=
ARCH x86_64|aarch64
WILL_FAIL

NAME a line
RUN true
RETURN_CODE 3
`

func TestParse(t *testing.T) {
	cases, err := parseSuite("f", someCases)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 3 {
		t.Fatalf("%d cases", len(cases))
	}
	a, b, c := cases[0], cases[1], cases[2]
	if a.prog != "begin { printf(\"it's\"); }\nend { }" || a.expects[0].text != "one\ntwo" || a.timeout != 7*time.Second ||
		!slices.Equal(a.befores, []string{"./testprogs/a", "./testprogs/b  c"}) || !slices.Equal(a.features, []string{"btf", "!fentry"}) {
		t.Errorf("%+v", a)
	}
	if got := a.command("bt"); got != `bt -e 'begin { printf("it'\''s"); }`+"\nend { }'" {
		t.Errorf("command %s", got)
	}
	if !b.willFail || b.command("bt -x") != "bt -x -l | cat" || !slices.Equal(b.env, []string{"A=1", "B="}) ||
		!slices.Equal(b.arch, []string{"x86_64", "aarch64"}) || b.timeout != defaultTimeout {
		t.Errorf("%+v", b)
	}
	if c.name != "a line (2)" || c.status != 3 {
		t.Errorf("%+v", c)
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"RUN x\nEXPECT y":                         "without NAME",
		"NAME x\nEXPECT y":                        "one of RUN and PROG",
		"NAME x\nRUN y\nPROG z\nEXPECT y":         "one of RUN and PROG",
		"NAME x\nRUN y":                           "nothing is expected",
		"NAME x\nRUN y\nEXPECT a\nEXPECT_FILE f":  "a file is expected, and more",
		"NAME x\nRUN y\nEXPECT a\nTIMEOUT soon":   "invalid syntax",
		"NAME x\nRUN y\nEXPECT a\nNEW_PIDNS":      "NEW_PIDNS without BEFORE",
		"\n\nNAME x\nRUN y\nEXPECT a\nEXPECTED b": "f:3: EXPECTED is no directive",
	} {
		if _, err := parseSuite("f", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestUnmet(t *testing.T) {
	files := fstest.MapFS{
		"out.txt":    {Data: []byte("\n@: 1\n%H:00\n")},
		"out.json":   {Data: []byte(`{"a": [1, 2.0], "b": null}`)},
		"out.ndjson": {Data: []byte("{\"a\": 1}\n{\"b\": 2}\n")},
	}
	for _, c := range []struct {
		mode, text, output string
		met                bool
	}{
		{"EXPECT", "a+b", "x\n  a+b \ny", true},
		{"EXPECT", "a+b", "xa+b", false},
		{"EXPECT", "a\nb", "x\na\nb\n", true},
		{"EXPECT_NONE", "a", "ab", true},
		{"EXPECT_NONE", "a", "b\na\n", false},
		{"EXPECT_REGEX", `^b\d$`, "a\nb1\nc", true},
		{"EXPECT_REGEX", "^x{2000}$", strings.Repeat("x", 2000), true},
		{"EXPECT_REGEX", "^x{2000}$", strings.Repeat("x", 1999), false},
		{"EXPECT_REGEX_NONE", "b$", "ab\nc", false},
		{"EXPECT_FILE", "out.txt", "@: 1\n" + time.Unix(0, 0).Format("15") + ":00\n\n", true},
		{"EXPECT_FILE", "./out.txt", "@: 1\n", false},
		{"EXPECT_JSON", "out.json", `{"b":null,"a":[1.0,2]}`, true},
		{"EXPECT_JSON", "out.json", `{"b":null,"a":[1.0,"2"]}`, false},
		{"EXPECT_JSON", "out.json", "{}\n{}", false},
		{"EXPECT_JSON", "out.ndjson", "{\"a\":1}\n{\"b\":2}", true},
		{"EXPECT_JSON", "out.ndjson", "{\"b\":2}\n{\"a\":1}", false},
		{"EXPECT_JSON", "none.json", "{}", false},
	} {
		if why := (expect{c.mode, c.text}).unmet(files, time.Unix(0, 0), c.output); (why == "") != c.met {
			t.Errorf("%s %q of %q: %q", c.mode, c.text, c.output, why)
		}
	}
}

func TestClosest(t *testing.T) {
	for output, want := range map[string]string{
		"Attached 2 probes\n\nx\nResult: 6\n": `, has "Result: 6"`,
		"Attached 2 probes\n x\ny\n":          `, has "x"`,
		"Attached 1 probe\n":                  ", has nothing",
	} {
		if got := closest("Result: 7", output); got != want {
			t.Errorf("%q: %s", output, got)
		}
	}
}

func TestReadable(t *testing.T) {
	if got := readable([]byte("a\r\nb\xffü\r")); got != "a\nb\\xffü\n" {
		t.Errorf("%q", got)
	}
}

func TestHarmful(t *testing.T) {
	for text, harms := range map[string]bool{
		"uprobe:./testprogs/a:main {}":                         false,
		"uprobe:testprogs/a:main {}":                           false,
		"uprobe:*:main {}":                                     false,
		"usdt::x:y {}":                                         false,
		"uprobe:/tmp/x/a:main {}":                              false,
		"uprobe:/bin/bash:main {}":                             true,
		"begin { } uretprobe:libc:fread {}":                    true,
		"watchpoint:0x1000:8:w {}":                             true,
		"echo > /sys/kernel/debug/tracing/trace; {{BPFTRACE}}": true,
	} {
		if got := harmful(&testCase{}, text) != ""; got != harms {
			t.Errorf("%s: %v", text, got)
		}
	}
	if harmful(&testCase{setup: "ip link"}, "") == "" || harmful(&testCase{cleanup: "rm -f x"}, "") != "" {
		t.Error("SETUP or CLEANUP")
	}
}

func TestKinds(t *testing.T) {
	for text, want := range map[string]string{
		"kprobe:f {}":                               "kprobe",
		"begin { }kr:f* {}":                         "kprobe",
		"bt -l 'kprobe*'":                           "kprobe",
		"bt -l | grep fentry":                       "fentry",
		"iter:task {}":                              "iter",
		"h:cache-misses:1 {}":                       "hardware",
		"struct A { int h:2, k:4 } i:s:1 {}":        "",
		"struct A { int h:2; } software:faults: {}": "",
		"begin { printf(\"k: %d\", 1) }":            "",
	} {
		got := ""
		for _, k := range kinds {
			if k.spelled.MatchString(text) {
				got = k.name
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Probes that bt lists are here, whatever else is wrong. A line of a script in an error is no list.
func TestListed(t *testing.T) {
	p := &place{tested: map[string]error{"fentry": errors.New("never")}}
	c := &testCase{expects: []expect{{"EXPECT", "x"}}}
	for _, test := range []struct {
		res  result
		want string
	}{
		{result{output: "fentry:f\n"}, fails},
		{result{output: "stdin:1: ERROR: y\nfentry:f { }\n", status: 1}, notHere},
		{result{}, notHere},
	} {
		if got := p.judge(fstest.MapFS{}, c, "fentry:f { }", &test.res); got.outcome != test.want {
			t.Errorf("%+v: %+v", test.res, got)
		}
	}
}

func TestJudge(t *testing.T) {
	p := &place{tested: map[string]error{}}
	line := &testCase{expects: []expect{{"EXPECT", "a"}}}
	fail := &testCase{expects: []expect{{"EXPECT_REGEX", "ERROR"}}, willFail: true}
	for _, c := range []struct {
		c    *testCase
		res  result
		want verdict
	}{
		{line, result{output: "a\n"}, verdict{passes, ""}},
		{line, result{output: "a\n", status: 1}, verdict{fails, "ends with status 1"}},
		{line, result{output: "a\n", status: 1, timedOut: true}, verdict{passes, ""}},
		{line, result{output: "b\n", timedOut: true}, verdict{fails, `wants "a", has "b", until its time was over`}},
		{line, result{output: "x: ERROR: args is not supported in programs yet\nbt: x", status: 1}, verdict{notYet, "args"}},
		{line, result{output: "bt: flag provided but not defined: -k (bt -h)", status: 1}, verdict{fails, "bt has no flag -k"}},
		{line, result{output: "x:1:2: ERROR: no\nbt: y", status: 1}, verdict{fails, "x:1:2: ERROR: no"}},
		{line, result{output: "bt: x: foo: not supported: never", status: 1}, verdict{fails, "bt: x: foo: not supported: never"}},
		{line, result{trouble: "BEFORE: x"}, verdict{fails, "BEFORE: x"}},
		{fail, result{output: "ERROR", status: 1}, verdict{passes, ""}},
		{fail, result{output: "ERROR"}, verdict{fails, "ends with status 0"}},
		{fail, result{output: "ERROR: x is not supported in programs yet", status: 1}, verdict{notYet, "x"}},
	} {
		if got := p.judge(fstest.MapFS{}, c.c, "", &c.res); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.res, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	first, second := t.TempDir()+"/a", t.TempDir()+"/b"
	os.WriteFile(first, []byte("bttest-place\there\nbttest\tf\ta\tpasses\t\nbttest\tf\tb\tnot here\tno kprobes\n"+
		"bttest\tf\tc\tneeds a form\targs\nbttest\tg\td\tnot here\tno PMU\n\t| bttest\n"), 0o644)
	os.WriteFile(second, []byte("[  1.0] noise\r\nbttest-place\tguest\r\nbttest\tf\tb\tfails\twants \"x\"\r\nbttest\tother\tbitfield_access_2\tfails\twants 1\r\nbttest\tg\td\tnot here\tno PMU at all\r\n"), 0o644)
	all, err := readRows([]string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	all.print(&out)
	for _, want := range []string{
		"5 cases of", "| here | 1 | 0 | 1 | 0 |", "| guest | 0 | 2 | 0 | 1 |", "| all | 1 | 2 | 1 | 1 |", "Of the 3 ", " 33.3 % pass",
		`wants "x" (1): f.b`, "* no PMU at all (1): g.d", "* args (1): f.c", "* f (1): a",
		"* wants 1 (1): other.bitfield_access_2\n  * `` other.bitfield_access_2: bit fields of signed types are signed, as in C ``\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
