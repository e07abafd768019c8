package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool/cli"
)

func TestRun(t *testing.T) {
	const bar = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@"
	half := bar[:26] + strings.Repeat(" ", 26)
	for _, c := range []struct {
		args, in, want string
	}{
		{"", "4\n5\n\n9\n", "@:\n[4, 8)                 2 |" + bar + "|\n[8, 16)                1 |" + half + "|\n\n"},
		{"-unit us -q 0.5,1", "1.5ms\n1.5ms\n", "@:\n[1K, 2K)               2 |" + bar + "|\n\np50 1500 (1500 to 1500)\np100 1500 (1500 to 1500)\n"},
		{"-style json", "read 3\nwrite 1\nread 2\n", `{"type": "hist", "data": {"@[write]": [{"min": 1, "max": 1, "count": 1}]}}` + "\n" +
			`{"type": "hist", "data": {"@[read]": [{"min": 2, "max": 3, "count": 2}]}}` + "\n"},
		{"-style csv -linear 0,10,5", "7\n11\n", "lo,hi,count\n5,10,1\n10,,1\n"},
		{"-style bcc -unit usecs", "x 1\n", "\nkey = 'x'\n     usecs               : count     distribution\n         0 -> 1          : 1        |****************************************|\n"},
		{"-style prometheus", "1\n", "# TYPE values histogram\nvalues_bucket{le=\"0\"} 0\nvalues_bucket{le=\"1\"} 1\nvalues_bucket{le=\"+Inf\"} 1\nvalues_sum 1\nvalues_count 1\n"},
	} {
		var out bytes.Buffer
		if err := run(strings.Fields(c.args), strings.NewReader(c.in), cli.NewOutput(&out)); err != nil || out.String() != c.want {
			t.Errorf("hist %s: %v\n%s\nwant\n%s", c.args, err, out.String(), c.want)
		}
	}
}

func TestHeat(t *testing.T) {
	svg := filepath.Join(t.TempDir(), "h.svg")
	var out bytes.Buffer
	in := "1000.1 5\n1001.2 700\n1003 5\n"
	if err := run([]string{"-heat", "1s", "-svg", svg, "-unit", "us"}, strings.NewReader(in), cli.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(svg)
	if err != nil || strings.Count(string(b), "<title>") != 3 {
		t.Error(string(b), err)
	}
	if err := run([]string{"-offset", "10", "-unicode"}, strings.NewReader("5.05\n5.95\n"), cli.NewOutput(&out)); err != nil ||
		strings.Count(out.String(), "█") != 2 || strings.Count(out.String(), "\n") != 11 {
		t.Error(out.String(), err)
	}
}

// Colours are for terminals, not for files.
func TestHeatWithoutColours(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"-heat", "1s"}, strings.NewReader("1000.1 5\n1001.2 700\n"), cli.NewOutput(&out)); err != nil || out.Len() == 0 ||
		bytes.ContainsRune(out.Bytes(), '\x1b') {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestNamesAreSafe: the titles and units of the command line were printed as they were.
func TestNamesAreSafe(t *testing.T) {
	const name = "\x1b[2J\u202e\u200d"
	for _, args := range [][]string{
		{"-style", "bpftrace"},
		{"-style", "json"},
		{"-style", "csv"},
		{"-style", "bcc", "-unit", name},
		{"-style", "prometheus"},
		{"-heat", "1s", "-unit", name, "-title", name},
	} {
		var out bytes.Buffer
		in := name + " 3\n"
		if args[0] == "-heat" {
			in = "1000.1 5\n"
		}
		if err := run(args, strings.NewReader(in), cli.NewOutput(&out)); err != nil || out.Len() == 0 {
			t.Errorf("%q: %v, %q", args, err, out.String())
		}
		if strings.ContainsAny(out.String(), name[:1]+"\u202e\u200d") {
			t.Errorf("%q: %q", args, out.String())
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ args, in, want string }{
		{"", "1\nx\n", `line 2: "x" is neither a number nor a duration`},
		{"", "1e30\n", "out of range"},
		{"-k 9", "1\n", "k 9"},
		{"-linear 5", "1\n", "want min,max,step"},
		{"-style x", "1\n", "-style"},
		{"-q x", "1\n", "-q"},
		{"-heat 1s", "5\n", "want a time and a value"},
		{"-heat 1s", "0 1\n1e9 1\n", "too far away"},
		{"file", "", "unexpected argument"},
	} {
		err := run(strings.Fields(c.args), strings.NewReader(c.in), cli.NewOutput(io.Discard))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("hist %s: %v, want %q", c.args, err, c.want)
		}
	}
}
