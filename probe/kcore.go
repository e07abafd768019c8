package probe

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/usercode"
)

// checkOffset checks an offset into a kernel function against its size and,
// where /proc/kcore may be read, against its instructions. The kernel checks
// too, but says no more than EILSEQ or EINVAL.
func (r *resolver) checkOffset(fn kallsyms.Symbol, offset uint64) error {
	if offset == 0 {
		return nil
	}
	k, err := r.env.Functions()
	if err != nil || k.Hidden {
		return nil // the kernel's check remains
	}
	found := k.Lookup(fn.Module, fn.Name)
	if len(found) == 0 {
		return nil
	}
	_, size, ok := k.At(found[0].Address)
	if !ok || size == 0 {
		return nil
	}
	if offset >= size {
		return fmt.Errorf("offset %d lies beyond %s, which has %d bytes: %w", offset, fn.Name, size, fs.ErrInvalid)
	}
	text, err := kernelText(r.env.Root(), found[0].Address, size)
	if err != nil {
		return nil
	}
	var unknown *insn.Error
	if err = usercode.CheckBoundary(machineOf(r.env.Arch()), text, offset); errors.As(err, &unknown) {
		return nil // the kernel, too, knows what it is; code that runs is patched
	}
	return err
}

func machineOf(arch string) elf.Machine {
	if arch == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

// kernelText reads kernel memory through /proc/kcore.
func kernelText(root fs.FS, addr, size uint64) ([]byte, error) {
	f, err := root.Open("proc/kcore")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	core, err := elffile.NewFS(f)
	if err != nil {
		return nil, err
	}
	for _, p := range core.Progs {
		if p.Type != elf.PT_LOAD || addr < p.Vaddr || addr-p.Vaddr >= p.Filesz || size > 1<<20 {
			continue
		}
		return core.Bytes(p.Offset+addr-p.Vaddr, size)
	}
	return nil, notexist.Errorf("address %#x is not in /proc/kcore", addr)
}
