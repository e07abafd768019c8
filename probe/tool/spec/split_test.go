package spec

import (
	"errors"
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script"
)

// TestSplit: the parts of probes.
func TestSplit(t *testing.T) {
	for in, want := range map[string]string{
		"vfs_read":                           "vfs_read||",
		" vfs_read  ":                        "vfs_read||",
		"vfs_read /arg2 > 10/":               "vfs_read|arg2 > 10|",
		`k:vfs_* /arg2 /2 > 9/ "%d", arg2`:   `k:vfs_*|arg2 /2 > 9|"%d", arg2`,
		`uprobe:"/a b":f  args.x, arg1/2`:    `uprobe:"/a b":f||args.x, arg1/2`,
		"t:sched:sched_switch\t/pid == 1/ 5": "t:sched:sched_switch|pid == 1|5",
	} {
		s, err := split(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		part := func(p script.Part) string { return s.Text[p.Start:p.End] }
		if got := part(s.Target) + "|" + part(s.Filter) + "|" + part(s.Values); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"":               `"": column 1: want a probe`,
		"vfs_read /arg2": `"vfs_read /arg2": column 10: the filter that begins here has no end`,
	} {
		if _, err := split(in); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", in, err, want)
		}
	}
}

// TestParts: values are what is between commas, but not in calls and texts.
func TestParts(t *testing.T) {
	for in, want := range map[string]string{
		"f":                                  "",
		"f a":                                "a",
		"f a , strncmp(b, \"x\", 1),c[1]":    `a|strncmp(b, "x", 1)|c[1]`,
		`f ",\",(", (1, 2)`:                  `",\",("|(1, 2)`,
		`printf "%d, %s" , args.a, str(b,2)`: "args.a|str(b,2)",
	} {
		s, err := split(in)
		if err != nil {
			t.Fatal(err)
		}
		s.Printf = strings.HasPrefix(in, "printf")
		var got []string
		for _, p := range parts(s) {
			got = append(got, s.Text[p.Start:p.End])
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%s has %s, want %s", in, got, want)
		}
	}
}

// FuzzSplit: the parts of a text are in order within it, and so is the place of a mistake.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"a /b/ c, d", "\"", "a / ", "\n/\t/ ,,(\"\\", "a /b", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := split(text)
		if err != nil {
			m, ok := errors.AsType[*mistake](err)
			if !ok || m.offset < 0 || m.offset > len(text) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		at := 0
		for _, p := range append([]script.Part{s.Target, s.Filter}, parts(s)...) {
			if p == (script.Part{}) {
				continue
			}
			if p.Start < at || p.End < p.Start || p.End > len(text) {
				t.Fatalf("%q: %v begins before %d or ends behind %d", text, p, at, len(text))
			}
			at = p.End
		}
	})
}
