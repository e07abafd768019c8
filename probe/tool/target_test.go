package tool

import (
	"io"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestCutPattern(t *testing.T) {
	for text, want := range map[string][2]string{
		"^vfs_(?:read|write)$":    {"kprobe:", "^vfs_(?:read|write)$"},
		"kprobe:a:b":              {"kprobe:", "a:b"},
		"t:sched:.*wake":          {"t:sched:", ".*wake"},
		"uprobe:libc:^(m|c)alloc": {"uprobe:libc:", "^(m|c)alloc"},
		"usdt:/bin/x:p:a|b":       {"usdt:/bin/x:p:", "a|b"},
		"usdt:/bin/x:a|b":         {"usdt:/bin/x:", "a|b"},
	} {
		if place, pattern := cutPattern(text); place != want[0] || pattern != want[1] {
			t.Errorf("%s: %q and %q", text, place, pattern)
		}
	}
}

// Of the tracepoints of a call one is at its entry, and one at its return.
func TestTargetByRegexp(t *testing.T) {
	testenv.Need(t, testenv.Root)
	tl := New("demo", "Show nothing.")
	if err := tl.Parse(nil, NewOutput(io.Discard)); err != nil {
		t.Fatal(err)
	}
	target, err := tl.Target("t:syscalls:^sys_(enter|exit)_openat$", true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if s := target.String(); s != "tracepoint:syscalls:sys_enter_openat,tracepoint:syscalls:sys_exit_openat" {
		t.Error(s)
	}
	for _, bad := range []string{"t:syscalls:^nothing of this name$", "t:syscalls:(", "uprobe:/nowhere:x"} {
		if _, err := tl.Target(bad, true, 0); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
