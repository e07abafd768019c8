package stack

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/borescope/borescope/internal/testenv"
)

var orcSamples = flag.Int("orc-samples", 300, "compare so many kernel `samples` with bpf_get_stack")

// kernelReader reads kernel memory by a program, a piece at a time.
type kernelReader struct {
	prog *ebpf.Program
	buf  *ebpf.Map
}

const kernelPiece = 1 << 16

func newKernelReader(t *testing.T) *kernelReader {
	t.Helper()
	_ = rlimit.RemoveMemlock()
	buf, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: kernelPiece, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { buf.Close() })
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Syscall, Flags: 1 << 4 /* BPF_F_SLEEPABLE */, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, buf.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Mov.Imm(asm.R2, kernelPiece),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord),
		asm.FnProbeReadKernel.Call(),
		asm.Return().WithSymbol("out"),
	}})
	if err != nil {
		t.Skipf("reading the kernel's memory: %v", err)
	}
	t.Cleanup(func() { prog.Close() })
	return &kernelReader{prog, buf}
}

func (k *kernelReader) read(t *testing.T, from, to uint64) []byte {
	t.Helper()
	var out []byte
	for at := from; at < to; at += kernelPiece {
		ctx := binary.NativeEndian.AppendUint64(nil, at)
		ret, err := k.prog.Run(&ebpf.RunOptions{Context: ctx})
		if err != nil || int32(ret) != 0 {
			t.Fatalf("read %#x: %d, %v", at, int32(ret), err)
		}
		var piece [kernelPiece]byte
		if err := k.buf.Lookup(uint32(0), &piece); err != nil {
			t.Fatal(err)
		}
		out = append(out, piece[:]...)
	}
	return out[:to-from]
}

// kernelSymbols returns the addresses of some symbols of the kernel itself.
func kernelSymbols(t *testing.T, names ...string) map[string]uint64 {
	t.Helper()
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	out := make(map[string]uint64)
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var addr uint64
		var typ, name string
		if n, _ := fmt.Sscanf(sc.Text(), "%x %s %s", &addr, &typ, &name); n == 3 && slices.Contains(names, name) && !strings.Contains(sc.Text(), "[") {
			out[name] = addr
		}
		if len(out) == len(names) {
			break
		}
	}
	for _, n := range names {
		if out[n] == 0 {
			t.Skipf("no symbol %s", n)
		}
	}
	return out
}

// liveORC reads the running kernel's own tables.
func liveORC(t *testing.T) *ORCTable {
	t.Helper()
	s := kernelSymbols(t, "__start_orc_unwind_ip", "__stop_orc_unwind_ip", "__start_orc_unwind", "__stop_orc_unwind", "__start_orc_header", "_stext", "_etext")
	k := newKernelReader(t)
	start := time.Now()
	header := k.read(t, s["__start_orc_header"], s["__start_orc_header"]+20)
	v, err := ORCVersionOf(header)
	if err != nil {
		t.Fatal(err)
	}
	o, err := NewORC(k.read(t, s["__start_orc_unwind_ip"], s["__stop_orc_unwind_ip"]), k.read(t, s["__start_orc_unwind"], s["__stop_orc_unwind"]), s["__start_orc_unwind_ip"], v)
	if err != nil {
		t.Fatal(err)
	}
	read := time.Since(start)
	table := o.Table(s["_stext"], s["_etext"], 0, nil)
	t.Logf("%d entries of layout %d read in %v, table made in %v", o.Len(), v, read.Round(time.Millisecond), (time.Since(start) - read).Round(time.Millisecond))
	return table
}

// The record of the program: the kernel's own chain, the interrupted
// registers, and the stack from the stack pointer up.
const (
	kChain    = 0 // n, then addresses
	kChainMax = 127
	kRegs     = kChain + 8 + 8*kChainMax
	kMem      = kRegs + amd64Regs
	kMemLen   = 16 << 10
	kStep     = 512
	kSize     = (kMem + 8 + kMemLen + 7) &^ 7
)

// kernelSnapProgram records samples that hit the kernel.
func kernelSnapProgram() asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R9, asm.R1),
		asm.LoadMem(asm.R1, asm.R9, amd64RegsIP, asm.DWord),
		asm.JSGE.Imm(asm.R1, 0, "out"), // user addresses are positive
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference("scratch"),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.Mov.Reg(asm.R1, asm.R9),
		asm.Mov.Reg(asm.R2, asm.R6),
		asm.Add.Imm(asm.R2, 8),
		asm.Mov.Imm(asm.R3, 8*kChainMax),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnGetStack.Call(),
		asm.StoreMem(asm.R6, kChain, asm.R0, asm.DWord),
	}
	for off := int16(0); off < amd64Regs; off += 8 {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R9, off, asm.DWord), asm.StoreMem(asm.R6, kRegs+off, asm.R1, asm.DWord))
	}
	// From a multiple of the step on, so that the last one ends with the stack.
	ins = append(ins, asm.LoadMem(asm.R7, asm.R6, kRegs+amd64RegsSP, asm.DWord), asm.And.Imm(asm.R7, -kStep), asm.Mov.Imm(asm.R8, 0))
	const step = kStep
	for i := range int32(kMemLen / step) {
		ins = append(ins,
			asm.Mov.Reg(asm.R1, asm.R6),
			asm.Add.Imm(asm.R1, kMem+8+i*step),
			asm.Mov.Imm(asm.R2, step),
			asm.Mov.Reg(asm.R3, asm.R7),
			asm.Add.Imm(asm.R3, i*step),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "send"),
			asm.Add.Imm(asm.R8, step),
		)
	}
	return append(ins,
		asm.StoreMem(asm.R6, kMem, asm.R8, asm.DWord).WithSymbol("send"),
		asm.LoadMapPtr(asm.R1, 0).WithReference("ring"),
		asm.Mov.Reg(asm.R2, asm.R6),
		asm.Mov.Imm(asm.R3, kSize),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}

// TestORCWalkerMatchesKernel walks kernel stacks by the running kernel's own
// tables, and compares with the chain that the kernel's own walker gave for the
// same sample.
func TestORCWalkerMatchesKernel(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Perf, testenv.Ringbuf, testenv.Tool("sh"))
	if runtime.GOARCH != "amd64" {
		t.Skip("ORC is amd64's")
	}
	table := liveORC(t)
	b := loadBPF(t, kSize, kernelSnapProgram(), &BPFLimits{Rows: 1})
	rd, err := ringbuf.NewReader(b.maps["ring"])
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	cmd := exec.Command("sh", "-c", "while :; do dd if=/dev/zero of=/dev/null bs=512 count=20000; find /usr/lib -maxdepth 3 >/dev/null; done")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	for cpu := range runtime.NumCPU() {
		b.sampleCPU(t, cpu, 1999)
	}
	w := ORCWalker{Tables: []*ORCTable{table}}
	var dst [kChainMax]Frame
	same, samples, frames, cut, bpf := 0, 0, 0, 0, 0
	differ := make(map[string]int)
	rd.SetDeadline(time.Now().Add(60 * time.Second))
	for samples < *orcSamples {
		rec, err := rd.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw := rec.RawSample
		n := int64(binary.NativeEndian.Uint64(raw[kChain:]))
		if n <= 0 {
			continue
		}
		var want []uint64
		for i := range n / 8 {
			want = append(want, binary.NativeEndian.Uint64(raw[8+8*i:]))
		}
		r := amd64Entry(raw[kRegs:])
		held := binary.NativeEndian.Uint64(raw[kMem:])
		m, end := w.Walk(dst[:], r, MemoryRange{r.SP() &^ (kStep - 1), bytes.Clone(raw[kMem+8:][:held])})
		got := pcs(dst[:m])
		samples++
		frames += m
		if slices.Equal(got, want) && end != EndBadMemory {
			same++ // also where both stop at code that has no rule
			continue
		}
		// The kernel leaves BPF programs out of its chain.
		if text := slices.DeleteFunc(slices.Clone(got), func(pc uint64) bool { return pc >= table.End }); len(text) < len(got) && slices.Equal(text, want) {
			bpf++
			continue
		}
		if end == EndBadMemory && len(got) <= len(want) && slices.Equal(got, want[:len(got)]) {
			cut++ // went on to a stack that was not copied
			continue
		}
		if key := end.String(); differ[key] < 3 {
			differ[key]++
			t.Logf("%v\n got %#x\nwant %#x", end, got, want)
		}
	}
	if samples < *orcSamples/2 {
		t.Errorf("only %d samples", samples)
	}
	t.Logf("%d samples, %.1f frames each, %d identical (%.2f%%), %d more up to the end of the copied stack, %d more with BPF programs that the kernel leaves out",
		samples, float64(frames)/float64(samples), same, 100*float64(same)/float64(samples), cut, bpf)
	if 1000*(same+cut+bpf) < 999*samples {
		t.Errorf("%d of %d differ", samples-same-cut-bpf, samples)
	}
}
