package bpf

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
)

// LoadedProgram describes a BPF program on this machine, whichever process loaded it.
type LoadedProgram struct {
	// ID, Name (at most 15 bytes) and Type are the kernel's.
	ID   ebpf.ProgramID
	Name string
	Type ebpf.ProgramType
	// UID is the user id of the process that loaded it.
	UID uint32
	// Loaded is the time of loading since the machine's start.
	Loaded time.Duration
	// Maps are the ids of the maps that it uses.
	Maps []ebpf.MapID
	// Runs and Time are how often and how long it ran, if the sysctl
	// kernel.bpf_stats_enabled is 1.
	Runs uint64
	Time time.Duration
	// Missed counts firings left out because of recursion.
	Missed uint64
}

// LoadedPrograms returns the BPF programs on this machine, in order of their ids. It needs
// CAP_SYS_ADMIN. Programs that are unloaded meanwhile are left out.
func LoadedPrograms() ([]LoadedProgram, error) {
	var out []LoadedProgram
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return out, nil
		}
		if err != nil {
			return out, fmt.Errorf("list programs: %w", err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("open program %d: %w", id, err)
		}
		lp, err := describe(id, p)
		p.Close()
		if err != nil {
			return out, err
		}
		out = append(out, lp)
	}
}

func describe(id ebpf.ProgramID, p *ebpf.Program) (LoadedProgram, error) {
	info, err := p.Info()
	if err != nil {
		return LoadedProgram{}, fmt.Errorf("program %d: %w", id, err)
	}
	lp := LoadedProgram{ID: id, Name: info.Name, Type: info.Type}
	lp.UID, _ = info.CreatedByUID()
	lp.Loaded, _ = info.LoadTime()
	lp.Maps, _ = info.MapIDs()
	if st, err := p.Stats(); err == nil {
		lp.Runs, lp.Time, lp.Missed = st.RunCount, st.Runtime, st.RecursionMisses
	}
	return lp, nil
}
