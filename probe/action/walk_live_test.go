//go:build linux

package action_test

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// framelessDepth is how often the program calls itself, framelessText where its
// code is.
const (
	framelessDepth = 40
	framelessText  = 0x400000
	framelessCFI   = 0x410000
)

// frameless is a program without frame pointers, whose stack at its getppid calls
// is known: the call's address, then framelessDepth return addresses into
// the function that calls itself, then one into _start. For every byte that
// it reads it makes 23 calls and writes the byte back. The code is:
//
//	_start: fp = 1; n = 40; rec()
//	rec:    adjust sp by -24 (amd64) or push lr and adjust (arm64)
//	        if n == 0 { goto leaf }; n--; rec(); sp back; return
//	leaf:   for read(0, sp, 1) == 1 { for range 23 { getppid() }; write(1, sp, 1) }; exit(0)
type frameless struct {
	code []byte
	cie  []byte // column of the return address, and the rules at a function's entry
	// start and rec are the rules of the two functions, entry is where the second begins.
	start, rec         []byte
	entry              uint64
	leaf, inner, outer uint64 // program counters
	getppid            int64
	machine            elf.Machine
}

var framelessAMD64 = frameless{
	code: []byte{
		0xbd, 1, 0, 0, 0, 0xbb, framelessDepth, 0, 0, 0, 0xe8, 1, 0, 0, 0, 0xf4,
		0x48, 0x83, 0xec, 0x18, 0x85, 0xdb, 0x74, 0x0c, 0xff, 0xcb, 0xe8, 0xf1, 0xff, 0xff, 0xff, 0x48, 0x83, 0xc4, 0x18, 0xc3,
		0x31, 0xc0, 0x31, 0xff, 0x48, 0x89, 0xe6, 0xba, 1, 0, 0, 0, 0x0f, 0x05, 0x83, 0xf8, 1, 0x75, 0x28, 0x41, 0xbc, 23, 0, 0, 0,
		0xb8, 0x6e, 0, 0, 0, 0x0f, 0x05, 0x41, 0xff, 0xcc, 0x75, 0xf4,
		0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x89, 0xe6, 0xba, 1, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xc5,
		0xb8, 0x3c, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05,
	},
	cie:     []byte{1, 0x78, 16, 0x0c, 7, 8, 0x80 | 16, 1}, // CFA = rsp + 8, rip at CFA - 8
	start:   []byte{0x07, 16},                              // no caller
	rec:     []byte{0x40 | 4, 0x0e, 32, 0x40 | 15, 0x0e, 8, 0x40 | 1, 0x0e, 32},
	entry:   0x10,
	leaf:    0x44,
	inner:   0x1f,
	outer:   0x0f,
	getppid: 110,
	machine: elf.EM_X86_64,
}

var framelessARM64 = frameless{
	code: words(
		0xd280003d, 0x52800000|framelessDepth<<5|19, 0x94000003, 0xd4200000, 0xd503201f,
		0xf81e0ffe, 0x340000b3, 0x51000673, 0x97fffffd, 0xf84207fe, 0xd65f03c0,
		0xaa1f03e0, 0x910043e1, 0xb24003e2, 0xb24017e8, 0xd4000001, 0xf100041f, 0x54000181,
		0xd28002f4, 0xd28015a8, 0xd4000001, 0xf1000694, 0x54ffffa1,
		0xb24003e0, 0x910043e1, 0xb24003e2, 0xb27a03e8, 0xd4000001, 0x17ffffef,
		0xaa1f03e0, 0xd2800ba8, 0xd4000001,
	),
	cie:   []byte{4, 0x78, 30, 0x0c, 31, 0}, // CFA = sp, the return address in x30
	start: []byte{0x07, 30},
	// From the second instruction CFA = sp + 32 and x30 at CFA - 32, but for the return.
	rec:     []byte{0x40 | 1, 0x0e, 32, 0x80 | 30, 4, 0x40 | 4, 0x0e, 0, 0xc0 | 30, 0x40 | 1, 0x0e, 32, 0x80 | 30, 4},
	entry:   5 * 4,
	leaf:    21 * 4,
	inner:   9 * 4,
	outer:   3 * 4,
	getppid: 173,
	machine: elf.EM_AARCH64,
}

func words(ws ...uint32) []byte {
	var b []byte
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// ehFrame is the program's .eh_frame: a CIE and an FDE for each function.
func (f *frameless) ehFrame() []byte {
	entry := func(body []byte) []byte {
		for len(body)%8 != 4 {
			body = append(body, 0) // DW_CFA_nop
		}
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	}
	out := entry(append([]byte{0, 0, 0, 0, 1, 0}, f.cie...))
	fde := func(from, to uint64, rules []byte) {
		b := binary.LittleEndian.AppendUint32(nil, uint32(len(out)+4))
		b = binary.LittleEndian.AppendUint64(b, framelessText+from)
		b = binary.LittleEndian.AppendUint64(b, to-from)
		out = append(out, entry(append(b, rules...))...)
	}
	fde(0, f.entry, f.start)
	fde(f.entry, uint64(len(f.code)), f.rec)
	return append(out, 0, 0, 0, 0)
}

// image is the executable.
func (f *frameless) image() []byte {
	file := elfbuild.File{Type: elf.ET_EXEC, Machine: f.machine, Entry: framelessText, Sections: []elfbuild.Section{
		{Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: framelessText, Data: f.code},
		{Name: ".eh_frame", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: framelessCFI, Data: f.ehFrame()},
	}}
	return file.Bytes()
}

// stack is the program's stack at its getppid calls.
func (f *frameless) stack() []uint64 {
	pcs := []uint64{framelessText + f.leaf}
	pcs = append(pcs, slices.Repeat([]uint64{framelessText + f.inner}, framelessDepth)...)
	return append(pcs, framelessText+f.outer)
}

// process is a frameless program that runs.
type framelessProcess struct {
	*frameless
	t    *testing.T
	pid  int
	work func() // 23 calls of getppid
}

func startFrameless(t *testing.T) *framelessProcess {
	t.Helper()
	f := map[string]*frameless{"amd64": &framelessAMD64, "arm64": &framelessARM64}[runtime.GOARCH]
	path := filepath.Join(t.TempDir(), "frameless")
	if err := os.WriteFile(path, f.image(), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := testenv.Command(t, path)
	in, out := testenv.Piped(t, cmd)
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return &framelessProcess{f, t, cmd.Process.Pid, func() {
		b := []byte{'x'}
		if _, err := in.Write(b); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, b); err != nil {
			t.Fatal(err)
		}
	}}
}

// atCalls is a program that does body at the process's getppid calls.
func (f *framelessProcess) atCalls(name string, body func(c *action.Ctx)) *action.Program {
	p := action.NewProgram(name)
	p.WalkLimits = &bpfwalk.Limits{Rows: 1 << 14, Mappings: 64, Processes: 8}
	p.On(probe.RawTracepoint{Name: "sys_enter"}, func(c *action.Ctx) {
		c.ReturnUnless(c.Arg(1).Eq(f.getppid))
		c.ReturnUnless(c.PID().Eq(f.pid))
		body(c)
	})
	return p
}

// add gives the process to the walker.
func (f *framelessProcess) add(s *action.Session) {
	f.t.Helper()
	// Special mappings, which are no files, have no rules and are named in the error.
	if err := s.AddProcess(f.pid); err != nil && strings.Contains(err.Error(), "frameless") {
		f.t.Fatal(err)
	}
}

// TestUstackWalk counts the stacks of a program without frame pointers by a map
// of stacks: before the walker knows the process, as the frame pointer has it,
// which is one frame; then whole, address by address.
func TestUstackWalk(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	f := startFrameless(t)
	walked := action.NewCounter[[64]uint64]("walked", 16)
	asked := action.NewCounter[[64]uint64]("asked", 16)
	s := attachOrSkip(t, f.atCalls("walk", func(c *action.Ctx) {
		walked.Inc(c, c.UstackWalk(64))
		asked.Inc(c, c.Ustack(64))
	}), nil)
	f.work()
	f.add(s)
	f.work()
	f.work()
	tab, err := walked.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var whole [64]uint64
	copy(whole[:], f.stack())
	short := [64]uint64{whole[0]}
	if len(snap.Entries) != 2 {
		t.Errorf("%d stacks, want 2", len(snap.Entries))
	}
	for _, e := range snap.Entries {
		if want := map[[64]uint64]uint64{short: 23, whole: 46}[e.Key]; e.Value != want {
			t.Errorf("%d of the stack %x, want %d\nthe whole one is %x", e.Value, e.Key, want, whole)
		}
	}
	st, err := s.Stats()
	if err != nil || st.Unwalked != 23 || st.Broken != 0 || st.Full != 0 || st.NoScratch != 0 {
		t.Errorf("stats %+v, %v; want 23 unwalked", st, err)
	}
	for range 2 {
		if err := s.RemoveProcess(f.pid); err != nil {
			t.Error(err)
		}
	}
	f.work()
	if st, err := s.Stats(); err != nil || st.Unwalked != 46 {
		t.Errorf("stats %+v, %v; want 46 unwalked", st, err)
	}
	byHelper, err := asked.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	if snap, err = byHelper.Snapshot(); err != nil || len(snap.Entries) == 0 || snap.Entries[0].Key[1] != 0 && snap.Entries[0].Key == whole {
		t.Errorf("the kernel's helper sees %x, %v", snap.Entries, err)
	}
}

type walkedEvent struct {
	Some  [4]uint64
	Whole [96]uint64
	Depth uint32
}

// TestUstackWalkPlaces has stacks walked into events, in loops and beside values
// that need the frame; where frames are left out; twice in an action.
func TestUstackWalkPlaces(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF)
	f := startFrameless(t)
	ev := action.NewEvents[walkedEvent]("ev", 0)
	byComm := action.NewHash[action.Comm, [42]uint64]("bycomm", 8)
	sum := action.NewSum[action.None]("sum", 1)
	s := attachOrSkip(t, f.atCalls("places", func(c *action.Ctx) {
		whole := c.UstackWalk(96)
		ev.Emit(c, func(e *walkedEvent, b *action.Bind) {
			b.Set(&e.Whole, whole)
			b.Set(&e.Some, &ir.Expr{Op: ir.OpUstackWalk, Int: 4, Skip: 39})
			b.Set(&e.Depth, whole.Len())
		})
		c.Loop(12, 12, func(i action.Int) {
			stk := c.UstackWalk(42)
			byComm.Set(c, c.Comm(), stk)
			sum.Observe(c, stk.Len().Add(i))
		})
	}), nil)
	f.add(s)
	r, err := ev.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.work()
	var want walkedEvent
	pcs := f.stack()
	copy(want.Whole[:], pcs)
	copy(want.Some[:], pcs[39:])
	want.Depth = uint32(len(pcs))
	for i := range 23 {
		var e walkedEvent
		if lost, err := r.Read(context.Background(), &e); err != nil || lost != 0 || e != want {
			t.Fatalf("event %d: %x, %d lost, %v\nwant %x", i, e, lost, err, want)
		}
	}
	tab, err := sum.Table(s)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := tab.Snapshot()
	if err != nil || len(snap.Entries) != 1 || snap.Entries[0].Value != 23*(12*42+66) {
		t.Errorf("frames and turns: %+v, %v; want %d", snap.Entries, err, 23*(12*42+66))
	}
	if st, err := s.Stats(); err != nil || st.Unwalked != 0 || st.Broken != 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
}
