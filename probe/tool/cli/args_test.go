package cli

import (
	"flag"
	"reflect"
	"testing"
)

func TestPermute(t *testing.T) {
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.Bool("l", false, "")
	fs.Bool("v", false, "")
	fs.Bool("long", false, "")
	fs.Int("p", 0, "")
	fs.String("e", "", "")
	type lists [3][]string
	for _, c := range []struct {
		args []string
		want lists
	}{
		{nil, lists{}},
		{[]string{"-lv", "a*"}, lists{{"-l", "-v"}, {"a*"}}},
		{[]string{"-le", "-v", "-"}, lists{{"-l", "-e", "-v"}, {"-"}}},
		{[]string{"-p181", "-vp", "7"}, lists{{"-p", "181", "-v", "-p", "7"}}},
		{[]string{"a", "-p", "1", "b", "--long", "c"}, lists{{"-p", "1", "--long"}, {"a", "b", "c"}}},
		{[]string{"a", "-e=x", "b", "--", "-l", "--y=2"}, lists{{"-e=x"}, {"a", "b"}, {"-l", "--y=2"}}},
		{[]string{"--pid", "7", "a", "--list", "-pid=8"}, lists{{"-p", "7", "-l", "-p=8"}, {"a"}}},
		{[]string{"-pie", "--no", "-e"}, lists{{"-pie", "--no", "-e"}}},
	} {
		var got lists
		if got[0], got[1], got[2] = Permute(fs, map[string]string{"list": "l", "pid": "p"}, c.args); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}
