package collect

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
)

// ReadORC reads the tables for walking the running kernel's stacks, and those of its loaded
// modules, from the kernel's memory: no file of the kernel is needed. They are for a
// stack.ORCWalker over stacks that were copied with CopyOptions.KernelStacks.
//
// A module whose table can't be read is left out and joined to the error; the other tables
// can be used all the same. Without the kernel's own table there are none. env is this
// machine's; nil makes one. It takes a tenth of a second, and needs amd64, Linux 5.10, BTF,
// CAP_BPF and CAP_PERFMON.
func ReadORC(env *probe.Env) ([]*stack.ORCTable, error) {
	if env == nil {
		env = probe.NewEnv(nil)
	}
	tables, err := readORC(env)
	if err != nil {
		return tables, fmt.Errorf("collect: read the kernel's ORC tables: %w", err)
	}
	return tables, nil
}

func readORC(env *probe.Env) ([]*stack.ORCTable, error) {
	spec, err := env.BTF()
	if err != nil {
		return nil, err
	}
	const from, to, ipFrom, ipTo, text, etext = "__start_orc_unwind", "__stop_orc_unwind",
		"__start_orc_unwind_ip", "__stop_orc_unwind_ip", "_stext", "_etext"
	at, err := env.KernelAddresses(from, to, ipFrom, ipTo, text, etext, "__start_orc_header",
		"modules")
	if err != nil {
		return nil, err
	}
	for _, name := range []string{from, to, ipFrom, ipTo, text, etext} {
		if at[name] == 0 {
			return nil, fmt.Errorf("/proc/kallsyms has no %s: a kernel without CONFIG_UNWINDER_ORC, or without CONFIG_KALLSYMS_ALL: %w", name, errors.ErrUnsupported)
		}
	}
	m, err := openKernelMemory()
	if err != nil {
		return nil, err
	}
	defer m.close()
	o := orcReader{kernelMemory: m, spec: spec}
	if err := o.layout(at["__start_orc_header"]); err != nil {
		return nil, err
	}
	t, err := o.table(at[ipFrom], at[ipTo], at[from], at[to], at[text], at[etext])
	if err != nil {
		return nil, err
	}
	mods, err := o.modules(at["modules"])
	return append([]*stack.ORCTable{t}, mods...), err
}

// orcReader reads tables of one layout.
type orcReader struct {
	*kernelMemory
	spec    *btf.Spec
	version rules.ORCVersion
}

// layout finds the layout by the kernel's own header, or, before 6.4, by its
// types.
func (o *orcReader) layout(header uint64) (err error) {
	if header != 0 {
		b, err := o.read(header, 20)
		if err != nil {
			return err
		}
		o.version, err = stack.ORCVersionOf(b)
		return err
	}
	bits := make(map[string]btf.Bits)
	var entry *btf.Struct
	if err := o.spec.TypeByName("orc_entry", &entry); err != nil {
		return fmt.Errorf("layout: %w", err)
	}
	for _, m := range entry.Members {
		bits[m.Name] = m.BitfieldSize
	}
	switch {
	case bits["type"] == 3:
		o.version = rules.ORC3
	case bits["signal"] == 1:
		o.version = rules.ORC2
	case bits["end"] == 1:
		o.version = rules.ORC1
	default:
		return fmt.Errorf("struct orc_entry has an unknown layout: %v: %w", entry.Members,
			errors.ErrUnsupported)
	}
	return nil
}

// table reads one table: the addresses, and the entries beside them.
func (o *orcReader) table(ipFrom, ipTo, from, to, start, end uint64) (*stack.ORCTable, error) {
	ip, err := o.read(ipFrom, ipTo-ipFrom)
	if err != nil {
		return nil, err
	}
	entries, err := o.read(from, to-from)
	if err != nil {
		return nil, err
	}
	f, err := stack.NewORC(ip, entries, ipFrom, o.version)
	if err != nil {
		return nil, err
	}
	return f.Table(start, end, 0, nil), nil
}

// moduleLayout has the offsets of the members of struct module that are needed.
type moduleLayout struct {
	list, name, count, ip, entries, base, size uint64
}

// moduleLayout finds the members: mem since Linux 6.4, core_layout before.
func (o *orcReader) moduleLayout() (l moduleLayout, err error) {
	var missing error
	member := func(path string) uint64 {
		at, err := kernel.MemberOffset(o.spec, path)
		missing = errors.Join(missing, err)
		return uint64(at)
	}
	l.list, l.name = member("module.list"), member("module.name")
	arch := member("module.arch")
	l.count = arch + member("mod_arch_specific.num_orcs")
	l.ip = arch + member("mod_arch_specific.orc_unwind_ip")
	l.entries = arch + member("mod_arch_specific.orc_unwind")
	if text, err := kernel.MemberOffset(o.spec, "module.mem"); err == nil { // MOD_TEXT is the first
		l.base = uint64(text) + member("module_memory.base")
		l.size = uint64(text) + member("module_memory.size")
	} else {
		text := member("module.core_layout")
		l.base, l.size = text+member("module_layout.base"), text+member("module_layout.text_size")
	}
	return l, missing
}

// maxModules bounds the list, should it change while it is read.
const maxModules = 4096

// modules reads the tables of the modules in the list at head.
func (o *orcReader) modules(head uint64) (tables []*stack.ORCTable, errs error) {
	if head == 0 {
		return nil, nil // a kernel without modules
	}
	l, err := o.moduleLayout()
	if err != nil {
		return nil, err
	}
	next, err := o.word(head, 8)
	for n := 0; err == nil && next != head && n < maxModules; n++ {
		t, merr := o.module(&l, next-l.list)
		if merr != nil {
			errs = errors.Join(errs, merr)
		} else if t != nil {
			tables = append(tables, t)
		}
		next, err = o.word(next, 8)
	}
	return tables, errors.Join(errs, err)
}

// module reads one module's table; nil if it has none.
func (o *orcReader) module(l *moduleLayout, at uint64) (*stack.ORCTable, error) {
	var v [5]uint64
	for i, f := range [...]struct{ off, size uint64 }{
		{l.count, 4},
		{l.ip, 8},
		{l.entries, 8},
		{l.base, 8},
		{l.size, 4},
	} {
		var err error
		if v[i], err = o.word(at+f.off, f.size); err != nil {
			return nil, err
		}
	}
	count, ip, entries, base, size := v[0], v[1], v[2], v[3], v[4]
	if count == 0 {
		return nil, nil
	}
	t, err := o.table(ip, ip+4*count, entries, entries+6*count, base, base+size)
	if err != nil {
		name, _ := o.read(at+l.name, 56)
		return nil, fmt.Errorf("module %s: %w", cut(name), err)
	}
	return t, nil
}

// kernelMemory reads kernel memory by a program, a piece at a time.
type kernelMemory struct {
	prog *ebpf.Program
	buf  *ebpf.Map
}

// kernelPiece is read at once; maxKernelRead bounds the effect of a wrong length: a
// kernel's whole table takes up three megabytes.
const (
	kernelPiece   = 1 << 16
	maxKernelRead = 64 << 20
)

// openKernelMemory loads a raw tracepoint's program, which takes words as arguments and can
// be run without being attached since Linux 5.10.
func openKernelMemory() (*kernelMemory, error) {
	_ = kernel.RaiseMemlock()
	buf, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "kernel_memory", Type: ebpf.Array, KeySize: 4,
		ValueSize: kernelPiece, MaxEntries: 1,
	})
	if err != nil {
		return nil, err
	}
	var b builder
	b.Add(
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, buf.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R2, asm.R6, 8, asm.DWord), // length
		asm.JGT.Imm(asm.R2, kernelPiece, "out"),
		asm.LoadMem(asm.R3, asm.R6, 0, asm.DWord), // address
		asm.FnProbeReadKernel.Call(),
	)
	b.Label("out")
	b.Add(asm.Return())
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "kernel_memory", Type: ebpf.RawTracepoint,
		License: license, Instructions: b.Finish(),
	})
	if err != nil {
		return nil, errors.Join(refusal(err), buf.Close())
	}
	return &kernelMemory{prog, buf}, nil
}

func (m *kernelMemory) close() {
	_ = m.prog.Close()
	_ = m.buf.Close()
}

// read reads n bytes.
func (m *kernelMemory) read(addr, n uint64) ([]byte, error) {
	if n > maxKernelRead {
		return nil, fmt.Errorf("%d bytes at %#x are too many", n, addr)
	}
	out := make([]byte, 0, n)
	for uint64(len(out)) < n {
		from, piece := addr+uint64(len(out)), min(n-uint64(len(out)), kernelPiece)
		args := binary.NativeEndian.AppendUint64(nil, from)
		ret, err := m.prog.Run(&ebpf.RunOptions{Context: binary.NativeEndian.AppendUint64(args, piece)})
		if err != nil {
			return nil, fmt.Errorf("read kernel memory: %w", err)
		}
		if ret != 0 {
			return nil, fmt.Errorf("read kernel memory at %#x: error %d", from, -int32(ret))
		}
		var b [kernelPiece]byte
		if err := m.buf.Lookup(uint32(0), &b); err != nil {
			return nil, fmt.Errorf("read kernel memory: %w", err)
		}
		out = append(out, b[:piece]...)
	}
	return out, nil
}

// word reads a number of 4 or 8 bytes.
func (m *kernelMemory) word(addr, size uint64) (uint64, error) {
	b, err := m.read(addr, size)
	if err != nil {
		return 0, err
	}
	if size == 4 {
		return uint64(binary.NativeEndian.Uint32(b)), nil
	}
	return binary.NativeEndian.Uint64(b), nil
}
