package bpfwalk

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/golden"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/internal/rules"
	"github.com/borescope/borescope/stack/internal/stacktest"
)

// memMap is a map in memory.
type memMap struct {
	spec MapSpec
	m    map[uint32][]byte
	fail bool
}

func (m *memMap) Put(key, value any) error {
	k, v := key.(uint32), value.([]byte)
	if m.fail || len(v) != int(m.spec.ValueSize) || m.spec.Type == bpfMapArray && k >= m.spec.MaxEntries {
		return fmt.Errorf("%s: element %d of %d bytes refused", m.spec.Name, k, len(v))
	}
	m.m[k] = append([]byte(nil), v...)
	return nil
}

func (m *memMap) Delete(key any) error {
	delete(m.m, key.(uint32))
	return nil
}

func memMaps(l *Limits) (map[string]Map, map[string]*memMap) {
	a, b := make(map[string]Map), make(map[string]*memMap)
	for _, s := range Maps(l) {
		m := &memMap{spec: s, m: make(map[uint32][]byte)}
		a[s.Name], b[s.Name] = m, m
	}
	return a, b
}

// lookupBPF finds a rule as the program does, by the maps' contents alone.
func lookupBPF(maps map[string]*memMap, pid int, addr uint64) (rule []byte, mapped bool) {
	o := binary.NativeEndian
	p := maps[MapProcesses].m[uint32(pid)]
	if p == nil {
		return nil, false
	}
	for i := range o.Uint32(p[4:]) {
		m := maps[nameMappings].m[o.Uint32(p)+i]
		if addr < o.Uint64(m[mapStart:]) || addr >= o.Uint64(m[mapEnd:]) {
			continue
		}
		n := o.Uint32(m[mapRows:])
		off := addr - o.Uint64(m[mapBias:])
		chunk, first := maps[nameRows].m[o.Uint32(m[mapChunk:])], o.Uint32(m[mapFirst:])
		for j := range n {
			k := first + n - 1 - j
			if uint64(o.Uint32(chunk[4*k:])) <= off {
				id := uint32(o.Uint16(chunk[chunkRules+2*k:]))
				if id == 0 {
					return make([]byte, bpfRuleSize), true
				}
				return maps[nameRules].m[id], true
			}
		}
		return make([]byte, bpfRuleSize), true
	}
	return nil, false
}

// manyRows is a table of about n rows.
func manyRows(n int) *stack.CFITable {
	f := new(stacktest.EhFrame)
	for i := range n / 2 {
		f.FDE(0x1000+uint64(i)*64, 40, "", 0x44, 0x0e /* DW_CFA_def_cfa_offset */, byte(16+8*(i%12)), 0x80|stack.AMD64RBP, 2)
	}
	image := f.ELF()
	table, err := stack.NewCFI(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		panic(err)
	}
	return table
}

func TestTables(t *testing.T) {
	maps, mem := memMaps(nil)
	tables, err := NewTables(maps, nil)
	if err != nil {
		t.Fatal(err)
	}
	big, small := manyRows(60_000), manyRows(100)
	end := uint64(0x1000 + 60_000*32)
	procs := map[int]*stack.Modules{
		7: stack.NewModules(
			stack.Module{Start: 0x10_0000, End: 0x10_0000 + end, Bias: 0x10_0000, CFI: big},
			stack.Module{Start: 0x4000_0000, End: 0x4000_2000, Bias: 0x4000_0000, CFI: small},
			stack.Module{Start: 0x5000_0000, End: 0x5000_1000},
			stack.Module{Start: 0xffff_ffff_ff60_0000, End: 0xffff_ffff_ff60_1000},
		),
		8: stack.NewModules(stack.Module{Start: 0x7000_0000, End: 0x7000_0000 + end, Bias: 0x7000_0000, CFI: big}),
	}
	for pid, mods := range procs {
		if err := tables.SetProcess(pid, mods); err != nil {
			t.Fatal(err)
		}
	}
	shared := tables.Rows()
	if sum := big.Stats().Rows + small.Stats().Rows; shared > sum || shared < sum/2 {
		t.Errorf("%d rows in the kernel for %d: files are not shared", shared, sum)
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for pid, mods := range procs {
		for _, m := range mods.All() {
			for range 500 {
				addr := m.Start + rnd.Uint64N(m.End-m.Start)
				got, mapped := lookupBPF(mem, pid, addr)
				if mapped != (m.Start < 1<<63) {
					t.Fatalf("%#x of process %d: mapped %v", addr, pid, mapped)
				}
				if m.CFI == nil || !mapped {
					continue
				}
				want := newEncoder(m.CFI.Rules()).rule(m.CFI.Rules().Lookup(addr - m.Bias))
				if string(got) != string(want[:]) {
					t.Fatalf("%#x of process %d: rule %x, want %x", addr, pid, got, want)
				}
			}
		}
	}
	// A process that maps something else now, and processes that end.
	if err := tables.SetProcess(7, stack.NewModules(stack.Module{Start: 0x6000_0000, End: 0x6000_2000, Bias: 0x6000_0000, CFI: small})); err != nil {
		t.Fatal(err)
	}
	if _, mapped := lookupBPF(mem, 7, 0x10_1000); mapped {
		t.Error("an old mapping is still there")
	}
	for _, pid := range []int{7, 8, 8, 9} {
		if err := tables.RemoveProcess(pid); err != nil {
			t.Error(err)
		}
	}
	if tables.Rows() != shared || tables.idleRows != shared || len(tables.idle) != 2 {
		t.Errorf("%d rows are left for the next process, %d idle, want %d", tables.Rows(), tables.idleRows, shared)
	}
	if err := tables.SetProcess(7, procs[7]); err != nil || tables.Rows() != shared || tables.idleRows != 0 {
		t.Errorf("the next process: %v, %d rows, %d idle", err, tables.Rows(), tables.idleRows)
	}
	if err := tables.RemoveProcess(7); err != nil {
		t.Error(err)
	}
	for tables.reclaim() {
	}
	if tables.Rows() != 0 || tables.idleRows != 0 || len(mem[MapProcesses].m) != 0 || len(tables.free) != 1 {
		t.Errorf("left behind: %d rows, %d processes, %v", tables.Rows(), len(mem[MapProcesses].m), tables.free)
	}
}

func TestTablesBudget(t *testing.T) {
	mods := stack.NewModules(stack.Module{Start: 0x10_0000, End: 0x1000_0000, Bias: 0x10_0000, CFI: manyRows(60_000)})
	for name, l := range map[string]*Limits{"rows": {Rows: 10_000}, "mappings": {Mappings: 2}, "rules": {Rules: 2}} {
		maps, mem := memMaps(l)
		tables, err := NewTables(maps, l)
		if err != nil {
			t.Fatal(err)
		}
		if err := tables.SetProcess(7, mods); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: %v", name, err)
		}
		if tables.Rows() != tables.idleRows || len(mem[MapProcesses].m) != 0 {
			t.Errorf("%s: %d rows left behind, %d of them idle", name, tables.Rows(), tables.idleRows)
		}
	}
	maps, mem := memMaps(nil)
	tables, _ := NewTables(maps, nil)
	for _, name := range []string{nameRows, nameMappings, MapProcesses} {
		mem[name].fail = true
		if err := tables.SetProcess(7, mods); err == nil || tables.Rows() != tables.idleRows {
			t.Errorf("%s cannot be written: %v, %d rows left", name, err, tables.Rows())
		}
		mem[name].fail = false
	}
	if err := tables.SetProcess(7, mods); err != nil {
		t.Errorf("after the failures: %v", err)
	}
	if _, err := NewTables(nil, nil); err == nil {
		t.Error("no maps accepted")
	}
}

// The instructions are the same on every machine, refer to known maps, and jump
// within themselves.
func TestWalkerInstructions(t *testing.T) {
	for name, w := range map[string]*Walker{
		"amd64": {}, "plain": {PlainLoop: true, TaskStackOffset: 24}, "preset": {Preset: true}, "entry": {Entry: true, Returns: &ReturnProbes{}},
		"arm64 entry": {Machine: elf.EM_AARCH64, Entry: true}, "arm64": {Machine: elf.EM_AARCH64, MaxFrames: 512},
		"returns": {Returns: &ReturnProbes{}}, "task": {Task: &TaskOffsets{}}, "arm64 returns": {Machine: elf.EM_AARCH64, Returns: &ReturnProbes{}},
	} {
		ins := w.Instructions()
		symbols := make(map[string]bool)
		for _, i := range ins {
			if s := i.Symbol(); s != "" {
				if symbols[s] {
					t.Errorf("%s: two instructions are called %s", name, s)
				}
				symbols[s] = true
			}
		}
		if !symbols[WalkFunc] || !symbols[StepFunc] {
			t.Errorf("%s: functions are missing", name)
		}
		known := strings.Join([]string{MapProcesses, nameMappings, nameRows, nameRules, nameHints}, " ")
		for _, i := range ins {
			ref := i.Reference()
			if ref != "" && !symbols[ref] && !strings.Contains(known, ref) {
				t.Errorf("%s: %v refers to %s", name, i, ref)
			}
			if i.OpCode.Class().IsLoad() && i.Src != asm.PseudoMapFD && i.Dst == asm.RFP {
				t.Errorf("%s: %v writes the frame pointer", name, i)
			}
		}
		if name == "amd64" {
			golden.Compare(t, "testdata/amd64.txt", fmt.Appendf(nil, "%v", ins))
		}
		if name == "arm64" {
			golden.Compare(t, "testdata/arm64.txt", fmt.Appendf(nil, "%v", ins))
		}
	}
	w := Walker{MaxFrames: 3}
	if s := w.Decode(nil, nil); s.Stopped != stack.StopTruncated {
		t.Errorf("no state: %+v", s)
	}
	state := make([]byte, w.StateSize())
	binary.NativeEndian.PutUint32(state[stN:], 1<<31)
	for i, v := range []uint64{1<<63 | 0x10, 1<<62 | 0x20, 1<<63 | 0x30} {
		binary.NativeEndian.PutUint64(state[stPCs+8*i:], v)
	}
	want := []stack.Frame{{PC: 0x10, Return: false, Source: stack.SourceRegs}, {PC: 0x20, Return: true, Source: stack.SourceFP}, {PC: 0x30, Return: false, Source: stack.SourceCFI}}
	if s := w.Decode(nil, state); fmt.Sprint(s.Frames) != fmt.Sprint(want) {
		t.Errorf("got %v want %v", s.Frames, want)
	}
}

// TestEncodeIndex: the program knows the rule of OpenSSL's bn_mul_mont.
func TestEncodeIndex(t *testing.T) {
	rule := rules.Rule{
		CFA:   rules.CFA{Kind: rules.CFAIndex, Reg: stack.AMD64RSP, Off: 8, Off2: 8},
		Saved: []rules.SavedReg{{Num: stack.AMD64RIP, RegRule: rules.RegRule{Kind: rules.RegAtCFA, Off: -8}}},
	}
	e := encoder{m: elf.EM_X86_64, w: wordsOf(elf.EM_X86_64)}
	if b := e.rule(&rule); b[ruleCFA]&bpfCFAKind != bpfCFAIdx {
		t.Errorf("got %x", b)
	}
	e = encoder{m: elf.EM_AARCH64, w: wordsOf(elf.EM_AARCH64)}
	if b := e.rule(&rule); b[ruleCFA] != bpfCFAHard {
		t.Errorf("on arm64: %x", b)
	}
}
