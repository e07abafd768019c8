package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/symbol"
)

const prog = "../../symbol/testdata/prog"

func runTool(args ...string) (string, error) {
	var b bytes.Buffer
	err := run(context.Background(), args, cli.NewOutput(&b))
	return b.String(), err
}

func TestFile(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"outer", "0x0000000000401000     41 user       0x1000 outer " + prog + "\n"},
		{"out*", "0x0000000000401000     41 user       0x1000 outer " + prog + "\n"},
		{"-d v", "0x0000000000402000      4 data            - v " + prog + "\n"},
		{"-json /^_st/", `{"addr":"0x401029","size":11,"offset":"0x1029","kind":"user","name":"_start","module":"` + prog + `"}` + "\n"},
	} {
		got, err := runTool(append([]string{"-e", prog}, strings.Fields(c.args)...)...)
		if err != nil || got != c.want {
			t.Errorf("%s: got %q %v, want %q", c.args, got, err, c.want)
		}
	}
}

func TestProcess(t *testing.T) {
	testenv.Need(t, testenv.OS("linux"))
	got, err := runTool("-p", fmt.Sprint(os.Getpid()), "runtime.main")
	if err != nil || !strings.Contains(got, " runtime.main ") {
		t.Errorf("got %q %v", got, err)
	}
}

func TestKernel(t *testing.T) {
	testenv.Need(t, testenv.OS("linux"))
	got, err := runTool("-k", "vfs_rea?")
	if errors.Is(err, symbol.ErrHidden) {
		testenv.Need(t, testenv.Root)
	}
	if err != nil || !strings.Contains(got, " vfs_read [kernel]\n") {
		t.Errorf("got %q %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ args, msg string }{
		{"", "give a name"},
		{"x", "give one of"},
		{"-k -e x y", "give one of"},
		{"-e " + prog + " nothing", "nothing: no such symbol"},
		{"-e " + prog + " v", "no such symbol"},
		{"-e " + prog + " [", "without ]"},
		{"-e missing x", "no such file"},
	} {
		if _, err := runTool(strings.Fields(c.args)...); err == nil || !strings.Contains(err.Error(), c.msg) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.msg)
		}
	}
}
