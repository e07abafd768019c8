//go:build amd64

package usdt_test

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/usdt"
)

// ptRegs are struct pt_regs of amd64 by DWARF number.
var ptRegs = [...]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16}

// capture is a BPF program at a site that keeps the registers of the last hit.
type capture struct {
	regs *ebpf.Map
	prog *ebpf.Program
	link link.Link
}

func (c *capture) close() {
	c.link.Close()
	c.prog.Close()
	c.regs.Close()
}

const ptRegsSize = 21 * 8

// stackBelow and stackSize are what a capture keeps of the stack around its
// pointer: a leaf function's red zone is overwritten by what runs next.
const (
	stackBelow = 256
	stackSize  = 1024
)

func attach(t *testing.T, path string, s usdt.Site) *capture {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	c := &capture{}
	var err error
	if c.regs, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8 + ptRegsSize + stackSize, MaxEntries: 1}); err != nil {
		t.Fatal(err)
	}
	insns := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, c.regs.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "exit"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	}
	for i := int16(0); i < ptRegsSize; i += 8 {
		insns = append(insns, asm.LoadMem(asm.R1, asm.R6, i, asm.DWord), asm.StoreMem(asm.R0, 8+i, asm.R1, asm.DWord))
	}
	insns = append(insns,
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.Add.Imm(asm.R1, 8+ptRegsSize),
		asm.Mov.Imm(asm.R2, stackSize),
		asm.LoadMem(asm.R3, asm.R6, int16(8*ptRegs[stack.AMD64RSP]), asm.DWord),
		asm.Add.Imm(asm.R3, -stackBelow),
		asm.FnProbeReadUser.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("exit"), asm.Return())
	if c.prog, err = ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.Kprobe, Instructions: insns, License: "Dual MIT/GPL"}); err != nil {
		t.Fatal(err)
	}
	ex, err := link.OpenExecutable(path)
	if err != nil {
		t.Fatal(err)
	}
	if c.link, err = ex.Uprobe("", c.prog, &link.UprobeOptions{Address: s.Offset, RefCtrOffset: s.SemaphoreOffset}); err != nil {
		t.Fatal(err)
	}
	return c
}

// read returns how often the site was hit, and the last registers and memory.
func (c *capture) read(t *testing.T, pid int) (uint64, *stack.Regs, usdt.Memory) {
	t.Helper()
	var b [8 + ptRegsSize + stackSize]byte
	if err := c.regs.Lookup(uint32(0), &b); err != nil {
		t.Fatal(err)
	}
	r := &stack.Regs{Machine: elf.EM_X86_64}
	for dwarf, i := range ptRegs {
		r.Set(dwarf, binary.LittleEndian.Uint64(b[8+8*i:]))
	}
	return binary.LittleEndian.Uint64(b[:]), r, captured{memory(pid), r.SP() - stackBelow, b[8+ptRegsSize:]}
}

// captured is a live process's memory with the stack as it was.
type captured struct {
	memory
	at    uint64
	stack []byte
}

func (c captured) ReadMemory(dst []byte, addr uint64) error {
	if addr >= c.at && addr+uint64(len(dst)) <= c.at+uint64(len(c.stack)) {
		copy(dst, c.stack[addr-c.at:])
		return nil
	}
	return c.memory.ReadMemory(dst, addr)
}

// memory is a live process's.
type memory int

func (pid memory) ReadMemory(dst []byte, addr uint64) error {
	return procfs.ReadMemory(int(pid), dst, addr)
}

// TestValues builds a program at many options, and compares each argument with
// what the program itself prints.
func TestValues(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes, testenv.Tool("cc"))
	shapes := map[string]bool{}
	unread := map[usdt.Reason]int{}
	read, built := 0, 0
	refusal := errors.New("neither gcc nor clang")
	for _, cc := range []string{"gcc", "clang"} {
		if _, err := exec.LookPath(cc); err != nil {
			continue
		}
		for _, flags := range options(cc) {
			t.Run(cc+strings.Join(flags, ""), func(t *testing.T) {
				if flags[1] != "-fPIE" {
					testenv.Need(t, testenv.Long)
				}
				exe := filepath.Join(t.TempDir(), "values")
				out, err := testenv.Command(t, cc, append(flags, "-o", exe, "testdata/values.c")...).CombinedOutput()
				if err != nil { // no sys/sdt.h, or the compiler can't do this combination
					refusal = fmt.Errorf("%w: %s", err, out)
					testenv.Need(t, testenv.Got(cc+" with sys/sdt.h", refusal, append([]string{"unrecognized", "unknown"}, testenv.NoSDT...)...))
				}
				built++
				n := values(t, exe, shapes, unread)
				read += n
			})
		}
	}
	if built == 0 {
		testenv.Need(t, testenv.Missing("a compiler with sys/sdt.h", refusal.Error()))
	}
	t.Logf("%d values right, %d operand shapes, not readable: %v", read, len(shapes), unread)
	if read == 0 {
		t.Error("no values")
	}
}

// options are the combinations of optimisation, code model and constraint.
func options(cc string) (list [][]string) {
	for _, o := range []string{"-O0", "-O1", "-O2", "-O3", "-Os"} {
		for i, model := range [][]string{{"-fPIE", "-pie"}, {"-fno-pie", "-no-pie"}, {"-fno-pie", "-no-pie", "-mcmodel=large"}} {
			for j, constraint := range [][]string{nil, {"-DSTAP_SDT_ARG_CONSTRAINT=g"}} {
				if *full || (o == "-O2" && i < 2 && j == 0) || o == "-O0" && i == 2 && j == 1 {
					list = append(list, append(append([]string{o}, model...), constraint...))
				}
			}
		}
	}
	return list
}

// values runs the program, which stops after each probe.
func values(t *testing.T, exe string, shapes map[string]bool, unread map[usdt.Reason]int) int {
	f, err := usdt.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	probes, err := f.Probes()
	if err != nil || len(probes) != 8 {
		t.Fatalf("%+v, %v", probes, err)
	}
	captures := map[string]*capture{}
	for _, p := range probes {
		if len(p.Sites) != 1 || p.Sites[0].Err != nil || p.Sites[0].Nop != "nop" {
			t.Fatalf("%+v", p)
		}
		captures[p.Name] = attach(t, exe, p.Sites[0])
		defer captures[p.Name].close()
	}
	cmd := testenv.Command(t, exe)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	read := 0
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		waitStopped(t, cmd.Process.Pid)
		want := strings.Fields(lines.Text())
		p, err := f.Find("values", want[0])
		if err != nil {
			t.Fatal(err)
		}
		hits, r, mem := captures[want[0]].read(t, cmd.Process.Pid)
		args := p.Sites[0].Args
		if hits != 1 || len(args) != len(want)-1 {
			t.Fatalf("%s: %d hits, %v", want[0], hits, args)
		}
		for i, a := range args {
			shapes[shape(a)] = true
			v, err := a.Eval(r, mem, nil)
			var unreadable *usdt.UnreadableError
			switch {
			case err != nil && errors.As(err, &unreadable) && a.Reason == unreadable.Reason && a.Reason != usdt.ReasonNone:
				unread[a.Reason]++
			case err != nil || v.String() != want[i+1]:
				t.Errorf("%s, argument %d: %s (%v) is %v, %v; want %s", want[0], i+1, a, a.Operand, v, err, want[i+1])
			default:
				read++
			}
		}
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	return read
}

// shape is an operand without its numbers and names.
func shape(a usdt.Arg) string {
	return fmt.Sprint(a.Kind, a.Addr.Base.Ok(), a.Addr.Index.Ok(), a.Addr.PCRel, a.Addr.Disp != 0, a.Addr.Reloc, a.Addr.Segment, a.Reason, a.Size, a.Signed, a.Float)
}

func waitStopped(t *testing.T, pid int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		s, err := procfs.ReadStat(os.DirFS("/"), pid)
		if err != nil {
			t.Fatal(err)
		}
		if s.State == 'T' {
			return
		}
		if time.Since(begin) > 10*time.Second {
			t.Fatalf("process is in state %c", s.State)
		}
	}
}

// TestPython reads python's own probes: the event that is audited when it stops
// itself, and the generation of a garbage collection. Their semaphores go up
// and down with the links.
func TestPython(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.File("/usr/bin/python3"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, "/usr/bin/python3")
	path, err := filepath.EvalSymlinks("/usr/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	f, err := usdt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	audit, err := f.Find("python", "audit")
	testenv.Need(t, testenv.Got("python:audit", err))
	collect, err := f.Find("python", "gc__start")
	testenv.Need(t, testenv.Got("python:gc__start", err))
	cmd := testenv.Command(t, path, "-c", "import gc, os, signal, sys\nprint('ready', flush=True)\nsys.stdin.read(1)\ngc.collect(1)\nos.kill(os.getpid(), signal.SIGSTOP)\n")
	stdin, stdout := testenv.Piped(t, cmd)
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := io.ReadFull(stdout, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	modules, err := usdt.Modules(cmd.Process.Pid, nil)
	if err != nil || len(modules) == 0 || modules[0].Path != path {
		t.Fatalf("%+v, %v", modules, err)
	}
	pid := cmd.Process.Pid
	semaphore := func(s usdt.Site) uint16 {
		var b [2]byte
		if err := memory(pid).ReadMemory(b[:], s.Semaphore+modules[0].Bias); err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint16(b[:])
	}
	auditSite, gcSite := audit.Sites[0], collect.Sites[0]
	a, g := attach(t, path, auditSite), attach(t, path, gcSite)
	defer a.close()
	defer g.close()
	if semaphore(auditSite) != 1 || semaphore(gcSite) != 1 {
		t.Errorf("semaphores are %d and %d while attached", semaphore(auditSite), semaphore(gcSite))
	}
	if _, err := io.WriteString(stdin, "x"); err != nil {
		t.Fatal(err)
	}
	waitStopped(t, pid)
	hits, r, mem := a.read(t, pid)
	v, err := auditSite.Args[0].Eval(r, mem, nil)
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, 7)
	if err := mem.ReadMemory(event, v.Uint()); err != nil || hits == 0 || string(event) != "os.kill" {
		t.Errorf("audit: %d hits, %q, %v", hits, event, err)
	}
	hits, r, mem = g.read(t, pid)
	if v, err = gcSite.Args[0].Eval(r, mem, nil); err != nil || hits != 1 || v.Int() != 1 {
		t.Errorf("gc__start: %d hits, generation %v, %v", hits, v, err)
	}
	a.link.Close()
	g.link.Close()
	if semaphore(auditSite) != 0 || semaphore(gcSite) != 0 {
		t.Errorf("semaphores are %d and %d after the links were closed", semaphore(auditSite), semaphore(gcSite))
	}
}
