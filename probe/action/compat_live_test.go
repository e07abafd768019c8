//go:build linux

package action_test

import (
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// TestCompat: the calls of a 32-bit program, and those that a 64-bit program makes with int
// 0x80, are calls of the 32-bit ABI at their entry and at their return; those of this process
// are not. Their numbers alone are those of other calls.
func TestCompat(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	const getpid, open = 20, 5 // on i386 and on arm
	calls := []compatbuild.Call{
		{Name: "getpid", Times: 23},
		{Name: "open", Args: []any{"/nowhere", 0, 0}, Times: 7},
	}
	images := [][]byte{compatbuild.Program(runtime.GOARCH, compatbuild.Framed(calls...)...)}
	if runtime.GOARCH == "amd64" {
		images = append(images, compatbuild.Program64(compatbuild.Framed(calls...)...))
	}
	for _, image := range images {
		cmd := testenv.Command(t, compatbuild.Write(t, image))
		in, out := testenv.Piped(t, cmd)
		type key struct {
			ID     int32
			Compat bool
			Return bool
		}
		seen := action.NewCounter[key]("seen", 0)
		p := action.NewProgram("compat")
		for i, name := range []string{"sys_enter", "sys_exit"} {
			p.On(probe.Tracepoint{Group: "raw_syscalls", Name: name}, func(c *action.Ctx) {
				c.ReturnUnless(c.PID().Eq(cmd.Process.Pid))
				seen.Inc(c, c.Field("id"), c.Compat(), i)
			})
		}
		s := attachOrSkip(t, p, nil)
		if _, err := in.Write([]byte{'\n'}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		table, err := seen.Table(s)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := table.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		got := map[key]uint64{}
		for _, e := range snap.Entries {
			got[e.Key] = e.Value
			if !e.Key.Compat {
				t.Errorf("not of the 32-bit ABI: %+v", e.Key)
			}
		}
		for _, returns := range []bool{false, true} {
			for nr, want := range map[int32]uint64{getpid: 23, open: 7} {
				if n := got[key{nr, true, returns}]; n != want {
					t.Errorf("call %d, returns %v: %d of %d: %v", nr, returns, n, want, got)
				}
			}
		}
		in.Close()
		if err := errors.Join(cmd.Wait(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// This process's own calls are none of the 32-bit ABI.
func TestCompatOfNative(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	n := action.NewCounter[bool]("n", 2)
	p := marked("native", func(c *action.Ctx) { n.Inc(c, c.Compat()) })
	s := attachOrSkip(t, p, nil)
	marks(23)
	table, err := n.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := table.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Entries) != 1 || snap.Entries[0].Key || snap.Entries[0].Value != 23 {
		t.Errorf("%+v", snap.Entries)
	}
}
