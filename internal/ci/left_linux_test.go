package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/testlog"
)

// TestLeftIsSeen: one of everything that a test could leave is seen while it is
// there, and not before or after.
func TestLeftIsSeen(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Tracefs, testenv.Uprobes, testenv.Tool("sleep"))
	if !testenv.OwnMounts(t) {
		return
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	testenv.MountTracefs(t)
	own := place{t.TempDir(), fmt.Sprint("test-", os.Getpid())}
	// Mounted by now, so that what is in them is all that is new.
	groups, pins := t.TempDir(), t.TempDir()
	if err := unix.Mount("none", groups, "cgroup2", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(groups, unix.MNT_DETACH) })
	if err := unix.Mount("bpf", pins, "bpf", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(pins, unix.MNT_DETACH) })
	event := fmt.Sprintf("borescope_left_%d", os.Getpid())
	before := left(own)
	mine := func(what string) bool {
		return strings.Contains(what, own.tmp) || strings.Contains(what, groups) || strings.Contains(what, pins) ||
			strings.Contains(what, event) || strings.HasPrefix(what, "BPF") || strings.HasPrefix(what, "process")
	}

	fresh := map[string]func() (undo func(), err error){
		"mount tmpfs": func() (func(), error) {
			dir := own.tmp + "/mnt"
			if err := os.Mkdir(dir, 0o700); err != nil {
				return nil, err
			}
			return func() { unix.Unmount(dir, 0); os.Remove(dir) }, unix.Mount("tmpfs", dir, "tmpfs", 0, "")
		},
		"cgroup": func() (func(), error) {
			dir := fmt.Sprintf("%s/left-%d", groups, os.Getpid())
			return func() { os.Remove(dir) }, os.Mkdir(dir, 0o755)
		},
		"file": func() (func(), error) {
			return func() { os.Remove(own.tmp + "/x") }, os.WriteFile(own.tmp+"/x", nil, 0o600)
		},
		"file /dev/shm": func() (func(), error) {
			name := "/dev/shm/" + event
			return func() { os.Remove(name) }, os.WriteFile(name, nil, 0o600)
		},
		"event": func() (func(), error) {
			file := testenv.TracefsDir(t) + "/uprobe_events"
			return func() { appendTo(file, "-:"+event+"/x") }, appendTo(file, "p:"+event+"/x /bin/sleep:0x1000")
		},
		"BPF map": func() (func(), error) {
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
			return func() { m.Close() }, err
		},
		"pin": func() (func(), error) {
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
			if err == nil {
				err = m.Pin(pins + "/x")
			}
			return func() { os.Remove(pins + "/x"); m.Close() }, err
		},
		"BPF program": func() (func(), error) {
			p, err := rawProgram()
			return func() { p.Close() }, err
		},
		"BPF link": func() (func(), error) {
			p, err := rawProgram()
			if err != nil {
				return nil, err
			}
			l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sys_enter", Program: p})
			return func() { l.Close(); p.Close() }, err
		},
		"process": func() (func(), error) {
			cmd := testenv.Command(t, "sleep", "1000")
			cmd.Env = append(os.Environ(), markEnv+"="+own.mark)
			return func() { cmd.Process.Kill(); cmd.Wait() }, cmd.Start()
		},
	}
	for kind, leave := range fresh {
		undo, err := leave()
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		seen := false
		for what := range left(own) {
			seen = seen || !before[what] && mine(what) && strings.HasPrefix(what, kind)
		}
		undo()
		if !seen {
			t.Errorf("no %s is seen", kind)
		}
	}
	for what := range left(own) {
		if !before[what] && mine(what) && !strings.HasPrefix(what, "BPF") { // those others have, too
			t.Errorf("seen although it is gone: %s", what)
		}
	}
}

func rawProgram() (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
}

func appendTo(file, line string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}

// TestHarmless checks that a step fails if it leaves a file, with that file in the error, and
// only then.
func TestHarmless(t *testing.T) {
	step := func(leave bool) error {
		_, err := harmless(100*time.Millisecond, func(context.Context, *check) (testlog.Counts, error) {
			f, err := os.CreateTemp("", "left")
			if err != nil {
				return testlog.Counts{}, err
			}
			if !leave {
				defer os.Remove(f.Name())
			}
			return testlog.Counts{}, f.Close()
		})(t.Context(), &check{})
		return err
	}
	if err := step(true); err == nil || !strings.Contains(err.Error(), "/left") || !strings.Contains(err.Error(), " s after") {
		t.Errorf("a file is left: %v", err)
	}
	if err := step(false); err != nil && strings.Contains(err.Error(), "/left") {
		t.Errorf("nothing is left: %v", err)
	}
}
