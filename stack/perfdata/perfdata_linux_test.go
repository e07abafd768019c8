package perfdata

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

var perfTicks = flag.Int("perf-ticks", 30, "record each program until it has run for so many ticks, in the comparison with perf script")

// recordPerf has perf record a process until it has run for a while, however long it
// waits for a CPU.
func recordPerf(t *testing.T, perf string, pid int, file, size string, args ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"record"}, args...)
	piped := slices.Contains(args, "-")
	if !piped {
		args = append(args, "-o", file)
	}
	cmd := testenv.Command(t, perf, append(args, "-e", "cpu-clock:u", "-F", "997", "--call-graph", "dwarf,"+size,
		"-p", strconv.Itoa(pid), "--", "sh", "-c", `exec "$0" "$@" >/dev/null`, self, "-test.run=^TestWhileItRuns$")...)
	cmd.Env = append(os.Environ(), "BORESCOPE_PID="+strconv.Itoa(pid), "BORESCOPE_TICKS="+strconv.Itoa(*perfTicks))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if piped {
		to, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		cmd.Stdout = to
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("perf record: %v: %s", err, out.String())
	}
}

// TestWhileItRuns is the command of recordPerf's perf: it ends when the process
// BORESCOPE_PID has run for BORESCOPE_TICKS.
func TestWhileItRuns(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv("BORESCOPE_PID"))
	if err != nil {
		return // it is of use to its parent only
	}
	ticks, err := strconv.ParseUint(os.Getenv("BORESCOPE_TICKS"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	ran := func() uint64 {
		st, err := procfs.ReadStat(procfs.Root(nil), pid)
		if err != nil {
			t.Fatal(err)
		}
		return st.Ran
	}
	for end := ran() + ticks; ran() < end; {
		time.Sleep(10 * time.Millisecond)
	}
}

// TestPerfDataMatchesPerfScript records programs with perf, and compares every
// stack with the one that perf unwinds from the same file.
func TestPerfDataMatchesPerfScript(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Long, testenv.Perf, testenv.Tool("perf"))
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range stacktest.Workloads {
		t.Run(w.Name, func(t *testing.T) { comparePerfScript(t, perf, w) })
	}
	// The kernel's own code in processes had no rules: one of openssl's samples in a thousand.
	t.Run("vdso", func(t *testing.T) {
		comparePerfScript(t, perf, stacktest.Workload{Name: "perl", Argv: []string{"perl", "-MTime::HiRes=time", "-e", "while (1) { $x += time() }"}})
	})
	// Records of a deep stack, compressed.
	t.Run("compressed", func(t *testing.T) { comparePerfScript(t, perf, stacktest.Workloads[0], "-z") })
	// Written to a pipe: a section was said to lie outside of the file.
	t.Run("piped", func(t *testing.T) { comparePerfScript(t, perf, stacktest.Workloads[0], "-o", "-") })
}

func comparePerfScript(t *testing.T, perf string, w stacktest.Workload, args ...string) {
	pid := w.Start(t)
	file := filepath.Join(t.TempDir(), "perf.data")
	recordPerf(t, perf, pid, file, "65528", args...)
	want := perfScript(t, perf, file)
	p, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	samples, errOf := p.Samples()
	n, same, whole, short := 0, 0, 0, 0
	piped := slices.Contains(args, "-")
	var dst [stack.MaxFrames]stack.Frame
	for s := range samples {
		if s.Regs == nil {
			continue
		}
		walker := stack.CFIWalker{Modules: s.Modules}
		k, end := walker.Walk(dst[:], s.Regs, s.Stack)
		if end == stack.StopBottom || end == stack.StopLimit {
			whole++
		}
		if n >= len(want) {
			t.Fatalf("more samples than the %d of perf script", len(want))
		}
		if noStack(s) {
			// perf does not walk those.
			if k != 1 || end != stack.StopBadMemory || len(want[n]) > 0 {
				t.Errorf("%d: without a stack, %v %#x, want %#x", n, end, pcs(dst[:k]), want[n])
			}
			same++
		} else if piped && end == stack.StopBottom || piped && end == stack.StopLimit {
			same++ // perf (6.1) unwinds nothing that it reads from a pipe, but has the samples
		} else if matchPerf(dst[:k], s.Modules, want[n]) {
			same++
			if k > len(want[n]) {
				short++
			}
		} else if n-same < 4 {
			t.Logf("%d: %v, %d bytes of stack\n got %#x\nwant %#x", n, end, len(s.Stack.Data), pcs(dst[:k]), want[n])
		}
		n++
		if s.Comm == "" || s.PID != pid {
			t.Fatalf("sample of %d %q", s.PID, s.Comm)
		}
	}
	if err := errOf(); err != nil {
		t.Log(err)
	}
	t.Logf("%d samples, %d the same as perf's, of which perf's end early in %d; %d whole", n, same, short, whole)
	if n != len(want) || n == 0 || same < n {
		t.Errorf("%d samples, %d the same, perf has %d", n, same, len(want))
	}
}

// noStack reports whether the kernel could copy nothing of a sample's stack: the stack pointer
// had just moved to a page that nothing had been written to, and that perf_output_sample_ustack
// (kernel/events/core.c) therefore doesn't find.
func noStack(s *Sample) bool { return s.Regs != nil && len(s.Stack.Data) == 0 }

// TestPerfReadsPerfData has perf script and perf report read what Write
// wrote: the chains that were walked here are those that perf walks itself.
func TestPerfReadsPerfData(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Tool("perf"))
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Fatal(err)
	}
	w := stacktest.Workloads[0]
	pid := w.Start(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "perf.data")
	recordPerf(t, perf, pid, file, "32768")
	want := perfScript(t, perf, file)
	raw := filepath.Join(dir, "raw") // registers and stacks, for perf to walk
	rewritePerfData(t, file, raw, &Options{UserStacks: true})
	if got := perfScript(t, perf, raw); len(got) == 0 || !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("perf script walks %d samples that were written, %d of its own, not all alike", len(got), len(want))
	}
	out := filepath.Join(dir, "written")
	rewritePerfData(t, file, out, nil)
	got := perfScript(t, perf, out)
	same := slices.EqualFunc(got, want, func(g, w []uint64) bool {
		return slices.EqualFunc(g, w, func(g, w uint64) bool { return g == w || g == w+1 }) // perf looks up the call
	})
	if len(got) == 0 || !same {
		t.Errorf("perf script has %d samples, want %d", len(got), len(want))
	}
	report, err := testenv.Command(t, perf, "report", "-i", out, "--stdio", "--no-children", "-g", "none").CombinedOutput()
	if err != nil || !strings.Contains(string(report), "bash") {
		t.Errorf("perf report: %v\n%s", err, report)
	}
}

// rewritePerfData writes the samples of one file to another.
func rewritePerfData(t *testing.T, from, to string, o *Options) {
	t.Helper()
	p, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	samples, _ := p.Samples()
	var dst [stack.MaxFrames]stack.Frame
	walked := func(yield func(*Sample) bool) {
		for s := range samples {
			if o == nil && noStack(s) {
				s.Chain = nil // as perf has it
			} else if o == nil {
				walker := stack.CFIWalker{Modules: s.Modules}
				n, _ := walker.Walk(dst[:], s.Regs, s.Stack)
				s.Chain = pcs(dst[:n])
			}
			if !yield(s) {
				return
			}
		}
	}
	var b bytes.Buffer
	if err := Write(&b, walked, o); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// matchPerf compares a chain of ours with perf's, which shows the addresses
// that it looks up, in the files' own numbering or, from some version on, the
// process's. A chain of perf's that ends early is held against nobody: builds of
// perf differ in what they unwind with.
func matchPerf(got []stack.Frame, mods *stack.Modules, want []uint64) bool {
	if len(want) == 0 || len(got) < len(want) {
		return false
	}
	return slices.EqualFunc(got[:len(want)], want, func(f stack.Frame, w uint64) bool {
		// What no file covers, a chain of both may lead to: where the CFI is wrong, as
		// in a few instructions of libcrypto.
		m := mods.Find(f.LookupPC())
		return f.LookupPC() == w || m != nil && f.LookupPC()-m.Bias == w
	})
}

func perfScript(t *testing.T, perf, file string) [][]uint64 {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	from := file
	if st, err := in.Stat(); err == nil && st.Size() > 16 {
		var h [16]byte
		if _, err := in.ReadAt(h[:], 0); err == nil && h[8] == pipeHeaderSize {
			from = "-" // as a file, perf does not know its size
		}
	}
	cmd := testenv.Command(t, perf, "script", "-i", from, "-F", "tid,time,ip", "--no-inline", "--max-stack", strconv.Itoa(stack.MaxFrames))
	cmd.Stdin = in
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("perf script: %v", err)
	}
	var list [][]uint64
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 2 && strings.HasSuffix(f[1], ":"):
			list = append(list, nil)
		case len(f) == 1 && len(list) > 0:
			pc, err := strconv.ParseUint(f[0], 16, 64)
			if err != nil {
				t.Fatalf("perf script: %q", line)
			}
			list[len(list)-1] = append(list[len(list)-1], pc)
		}
	}
	return list
}

func FuzzPerfData(f *testing.F) {
	f.Add(tinyPerfData())
	f.Add(tinyPerfData()[:150])
	f.Add(tinyPiped())
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := New(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		p.Root = stacktest.EmptyFS{}
		samples, errOf := p.Samples()
		n := 0
		for s := range samples {
			n++
			if s.Regs != nil {
				w := stack.CFIWalker{Modules: s.Modules}
				var dst [50]stack.Frame
				if _, end := w.Walk(dst[:], s.Regs, s.Stack); end == stack.StopUnknown {
					t.Fatal("no reason")
				}
			}
		}
		_ = errOf()
		if n > len(b)/8 {
			t.Fatalf("%d samples in %d bytes", n, len(b))
		}
	})
}

// tinyPerfData is a file of one event with call chains, registers and stack, a
// mapping and a sample.
func tinyPerfData() []byte {
	le := binary.LittleEndian
	attr := make([]byte, 128)
	le.PutUint32(attr, 1)
	le.PutUint32(attr[4:], 112)
	const ip, tid, tm, chain, regs, stack = 1, 2, 4, 1 << 5, 1 << 12, 1 << 13
	le.PutUint64(attr[24:], ip|tid|tm|chain|regs|stack)
	le.PutUint64(attr[40:], 1<<18)
	le.PutUint64(attr[80:], 1<<6|1<<7|1<<8)
	rec := func(typ uint32, misc uint16, words ...uint64) []byte {
		b := le.AppendUint32(nil, typ)
		b = le.AppendUint16(b, misc)
		b = le.AppendUint16(b, uint16(8+8*len(words)))
		for _, w := range words {
			b = le.AppendUint64(b, w)
		}
		return b
	}
	const id = 7<<32 | 7
	mmap := rec(1, 0, id, 0x1000, 0x1000, 0, 0x6e69622f, id, 5)
	comm := rec(3, 0, id, 0x68736162, id, 4)
	kernel, user := ^uint64(127), ^uint64(511)
	sample := rec(9, 2, 0x1010, id, 10, 5, kernel, ^uint64(0xfff), user, 0x1010, 0x1020, 2, 0, 0x7000, 0x1010, 16, 0x1030, 0, 16)
	data := slices.Concat(sample, mmap, comm)
	h := make([]byte, headerSize)
	copy(h, magic)
	le.PutUint64(h[8:], headerSize)
	le.PutUint64(h[16:], 128)
	le.PutUint64(h[24:], headerSize)
	le.PutUint64(h[32:], 128)
	le.PutUint64(h[40:], headerSize+128)
	le.PutUint64(h[48:], uint64(len(data)))
	return slices.Concat(h, attr, data)
}

// tinyPiped is tinyPerfData as perf writes it to a pipe, with data behind a record.
func tinyPiped() []byte {
	le := binary.LittleEndian
	b := tinyPerfData()
	attr, data := b[headerSize:][:112], b[headerSize+128:]
	h := le.AppendUint64([]byte(magic), pipeHeaderSize)
	rec := func(typ uint32, body []byte) {
		h = le.AppendUint32(h, typ)
		h = le.AppendUint32(h, uint32(8+len(body))<<16)
		h = append(h, body...)
	}
	rec(perfTracingData, []byte{16, 0, 0, 0, 0, 0, 0, 0})
	h = append(h, "no record at all"...)
	rec(perfHeaderAttr, le.AppendUint64(slices.Clone(attr), 77))
	rec(perfHeaderFeature, append([]byte{perfFeatArch, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0}, "x86_64\x00\x00\x00\x00\x00\x00"...))
	return append(h, data...)
}

func TestPerfData(t *testing.T) {
	for name, b := range map[string][]byte{"file": tinyPerfData(), "pipe": tinyPiped()} {
		t.Run(name, func(t *testing.T) { testPerfData(t, b) })
	}
}

func testPerfData(t *testing.T, b []byte) {
	p, err := New(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	p.Root = stacktest.EmptyFS{}
	samples, errOf := p.Samples()
	n := 0
	for s := range samples {
		n++
		// The mapping and the name are older than the sample, though later in the file.
		if s.PID != 7 || s.Comm != "bash" || s.Time != 10 || s.Modules.Find(0x1010) == nil || s.Modules.Find(0x1010).Name != "/bin" {
			t.Errorf("%+v", s)
		}
		if !slices.Equal(s.Chain, []uint64{^uint64(0xfff), 0x1010, 0x1020}) || s.KernelFrames != 1 {
			t.Errorf("chain %#x, %d of the kernel", s.Chain, s.KernelFrames)
		}
		if s.Regs == nil || s.Regs.Machine != elf.EM_X86_64 || s.Regs.PC() != 0x1010 || s.Regs.SP() != 0x7000 || s.Stack.Addr != 0x7000 || len(s.Stack.Data) != 16 {
			t.Errorf("registers %+v, stack %+v", s.Regs, s.Stack)
		}
	}
	if err := errOf(); n != 1 || err == nil || !strings.Contains(err.Error(), "/bin") {
		t.Errorf("%d samples, %v", n, err)
	}
	for _, bad := range [][]byte{nil, []byte("PERFILE2"), tinyPerfData()[:120], append([]byte("PERFFILE"), b[8:]...)} {
		if _, err := New(bytes.NewReader(bad), int64(len(bad))); err == nil {
			t.Errorf("%d bytes accepted", len(bad))
		}
	}
	if err := (*File)(nil).Close(); err != nil {
		t.Error(err)
	}
}

// TestFIFO: a file that is none is not waited for.
func TestFIFO(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	var no *procfs.NotRegularError
	if _, err := Open(fifo); !errors.As(err, &no) {
		t.Error(err)
	}
}

func pcs(frames []stack.Frame) (out []uint64) {
	for _, f := range frames {
		out = append(out, f.PC)
	}
	return out
}
