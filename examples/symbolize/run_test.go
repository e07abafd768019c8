package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

func runTool(t *testing.T, args ...string) string {
	t.Helper()
	var b bytes.Buffer
	if err := run(context.Background(), args, cli.NewOutput(&b)); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return b.String()
}

// TestGolden names addresses of a small program that symbol/testdata/build.sh makes.
func TestGolden(t *testing.T) {
	const file = "../../symbol/testdata/prog"
	addrs := []string{"0x401000", "401006", "0x401010", "401029", "0x402fff"}
	for name, flags := range map[string][]string{
		"text": nil, "inlines": {"-i"}, "json": {"-json", "-i"}, "gnu": {"-style", "gnu", "-i"}, "llvm": {"-style", "llvm", "-i"},
	} {
		args := append(append([]string{"-e", file}, flags...), addrs...)
		golden.Compare(t, "testdata/"+name+".golden", runTool(t, args...))
	}
	golden.Compare(t, "testdata/perfmap.golden", runTool(t, "-perfmap", "testdata/perf-1.map", "1000", "1015", "2000"))
}

// TestTools compares with the tools whose output is imitated, where they are.
func TestTools(t *testing.T) {
	const file = "../../symbol/testdata/prog"
	for _, c := range []struct {
		tool  string
		args  []string
		style string
	}{
		{"addr2line", []string{"-f", "-i", "-e", file}, "gnu"},
		{"addr2line", []string{"-f", "-e", file}, "gnu"},
		{"llvm-symbolizer", []string{"-i", "-e", file}, "llvm"},
		{"llvm-symbolizer", []string{"--no-inlines", "-e", file}, "llvm"},
	} {
		var addrs []string
		for a := 0x401000; a < 0x401030; a++ {
			addrs = append(addrs, fmt.Sprintf("%#x", a))
		}
		out, err := testenv.Command(t, c.tool, append(c.args, addrs...)...).Output()
		if err != nil {
			t.Logf("%s: %v", c.tool, err)
			continue
		}
		ours := []string{"-e", file, "-style", c.style}
		if c.args[1] == "-i" || c.args[0] == "-i" {
			ours = append(ours, "-i")
		}
		want := discriminator.ReplaceAllString(string(out), "")
		if got := runTool(t, append(ours, addrs...)...); got != want {
			t.Errorf("%s %v: got\n%s\nwant\n%s", c.tool, c.args, got, want)
		}
	}
}

// discriminator is what addr2line adds to a line.
var discriminator = regexp.MustCompile(` \(discriminator \d+\)`)

func TestStdin(t *testing.T) {
	var b bytes.Buffer
	c := &config{perfmap: "testdata/perf-1.map", style: "gnu", stdin: strings.NewReader("1000\n\n 0x1015 \n")}
	if err := symbolize(context.Background(), c, nil, cli.NewOutput(&b)); err != nil {
		t.Fatal(err)
	}
	if want := "first\n??:0\nsecond one\n??:0\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// TestConversation asks, gets the answer, and asks again, as a script does that
// keeps the program running.
func TestConversation(t *testing.T) {
	in, ask := io.Pipe()
	answer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		c := &config{perfmap: "testdata/perf-1.map", style: "gnu", stdin: in}
		err := symbolize(context.Background(), c, nil, cli.NewOutput(out))
		out.Close()
		done <- err
	}()
	sc := bufio.NewScanner(answer)
	for _, addr := range []string{"1000", "1015", "2000"} {
		if _, err := io.WriteString(ask, addr+"\n"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a name and a place
			if !sc.Scan() {
				t.Fatalf("no answer for %s: %v", addr, sc.Err())
			}
		}
	}
	ask.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestProcess(t *testing.T) {
	testenv.Need(t, testenv.OS("linux"))
	if out := runTool(t, "-p", strconv.Itoa(os.Getpid()), "10"); out != "0x10 ?? (no mapping)\n" {
		t.Errorf("got %q", out)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ args, msg string }{
		{"", "give one of"},
		{"-k -e x", "give one of"},
		{"-e testdata/missing 1", "no such file"},
		{"-e testdata/perf-1.map 1", "not an ELF file"},
		{"-perfmap testdata/perf-1.map zz", "hexadecimal"},
		{"-perfmap testdata/perf-1.map -style x 1", "want gnu or llvm"},
		{"-perfmap testdata/perf-1.map -style gnu -json 1", "exclude"},
	} {
		err := run(context.Background(), strings.Fields(c.args), cli.NewOutput(&bytes.Buffer{}))
		if err == nil || !strings.Contains(err.Error(), c.msg) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.msg)
		}
	}
}

// TestDebugDirs takes a debuginfod client's cache from where the client keeps it.
func TestDebugDirs(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"", ""},
		{"HOME=/home/a", "/usr/lib/debug /home/a/.cache/debuginfod_client"},
		{"HOME=/home/a XDG_CACHE_HOME=/c", "/usr/lib/debug /c/debuginfod_client"},
		{"HOME=/home/a DEBUGINFOD_CACHE_PATH=/d XDG_CACHE_HOME=/c", "/usr/lib/debug /d"},
	} {
		dirs := debugDirs(func(name string) string {
			for _, e := range strings.Fields(c.env) {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v
				}
			}
			return ""
		})
		if got := strings.Join(dirs, " "); got != c.want {
			t.Errorf("%s: got %q, want %q", c.env, got, c.want)
		}
	}
}
