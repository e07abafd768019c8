package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/tool/cli"
)

const fixture = "../../mapx/recording/testdata/recording-1"

func TestReplay(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{
			"fixture -fixture, Linux 6.1.0 amd64, 2 of 2 CPUs, ", "table counts: 2 snapshots, 4 entries\n",
			"stream events: 3 records, 30 bytes, 5 lost\n", "file notes: 7 bytes\n",
		}},
		{"-tables", []string{
			"counts: Snapshot at ", "counts: ReadAndClear at ", ", 2 entries\n",
			`  PID=42 Comm="bash": [100, 200]` + "\n",
		}},
		{"-stream events", []string{" cpu 0 6669727374\n", " cpu 0 lost 5 74686972"}},
		{"-stream events -speed 1000", []string{" cpu 0 6669727374\n"}},
		{"-tables -speed 1000", []string{"counts: Snapshot at ", ", 2 entries\n"}},
		{"-cat notes", []string{"a note\n"}},
		{"-cat host/proc/version", []string{"Linux\n"}},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), append(strings.Fields(c.args), fixture), cli.NewOutput(&out)); err != nil {
			t.Fatal(c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("replay %s: %q is not in\n%s", c.args, want, out.String())
			}
		}
	}
	for _, args := range [][]string{
		{},
		{fixture, "more"},
		{"testdata/none"},
		{"-stream", "x", fixture},
		{"-cat", "x", fixture},
		{"-cat", "host/etc/passwd", fixture},
		{"-cat", "notes/x", fixture},
		{"-cat", "../x", fixture},
	} {
		if err := run(t.Context(), args, cli.NewOutput(io.Discard)); err == nil {
			t.Error(args)
		}
	}
}
