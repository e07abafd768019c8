package bpf

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/bpfwalk"
)

// walkCache bounds the compiled rules that this process keeps, in bytes, in addition to those
// in the kernel. With them a file is compiled once.
const walkCache = 16 << 20

// addWalkMaps adds the walker's maps to a collection.
func addWalkMaps(p *ir.Program, spec *ebpf.CollectionSpec) error {
	for _, m := range bpfwalk.Maps(p.WalkLimits) {
		if spec.Maps[m.Name] != nil {
			return fmt.Errorf("map %s: the walker of user stacks has that name", m.Name)
		}
		spec.Maps[m.Name] = &ebpf.MapSpec{
			Name: m.Name, Type: ebpf.MapType(m.Type), KeySize: m.KeySize, ValueSize: m.ValueSize,
			MaxEntries: m.MaxEntries,
		}
	}
	return nil
}

// walkTables fill the walker's maps with the rules of processes.
type walkTables struct {
	mu     sync.Mutex
	cfi    stack.CFICache  // guarded by mu
	tables *bpfwalk.Tables // guarded by mu
}

// newWalkTables returns the tables of a loaded program, nil if it walks no stacks.
func newWalkTables(p *ir.Program, loaded map[string]*ebpf.Map) (*walkTables, error) {
	if loaded[bpfwalk.MapProcesses] == nil || !walksStacks(p) {
		return nil, nil
	}
	maps := map[string]bpfwalk.Map{}
	for name, m := range loaded {
		maps[name] = m
	}
	tables, err := bpfwalk.NewTables(maps, p.WalkLimits)
	if err != nil {
		return nil, err
	}
	return &walkTables{tables: tables, cfi: stack.CFICache{MaxBytes: walkCache, Chosen: !p.WalkAnyone}}, nil
}

// AddProcess makes OpUstackWalk walk the stacks of a process by the call frame information of
// its files, which is compiled once for each file and shared. Add a process again after it
// has mapped other files; call RemoveProcess after it has ended. AddProcess does nothing for
// programs that walk no stacks. It treats the files of all owners alike, unless the program has
// WalkAnyone.
//
// The error lists what could not be read; the process's other files are walked by their rules
// all the same. It needs ptrace read permission.
func (l *Loaded) AddProcess(pid int) error {
	if l.walk == nil {
		return nil
	}
	l.walk.mu.Lock()
	defer l.walk.mu.Unlock()
	if err := l.usable(); err != nil {
		return fmt.Errorf("add process %d: %w", pid, err)
	}
	mods, err := l.walk.cfi.Modules(pid)
	if mods == nil {
		return fmt.Errorf("add process %d: %w", pid, err)
	}
	return errors.Join(err, l.failed("add process", l.walk.tables.SetProcess(pid, mods)))
}

// HasProcess reports whether a process was added, by AddProcess, and is walked by rules.
func (l *Loaded) HasProcess(pid int) bool {
	if l.walk == nil {
		return false
	}
	l.walk.mu.Lock()
	defer l.walk.mu.Unlock()
	return l.walk.tables.Has(pid)
}

// RemoveProcess removes a process that was passed to AddProcess, and the rules that no other
// process uses.
func (l *Loaded) RemoveProcess(pid int) error {
	if l.walk == nil {
		return nil
	}
	l.walk.mu.Lock()
	defer l.walk.mu.Unlock()
	return l.failed("remove process", l.walk.tables.RemoveProcess(pid))
}
