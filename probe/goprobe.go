package probe

import (
	"errors"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// goABIs are the integer registers of Go's ABIInternal
// (cmd/compile/abi-internal.md), in DWARF numbers.
var goABIs = map[string]callABI{
	"amd64": {args: []int{0, 3, 2, 5, 4, 8, 9, 10, 11}, ret: 0},
	"arm64": {args: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, ret: 0},
}

// moveBehind moves a site at a Go function's entry behind its stack check. It reports
// false if there is none.
func (s *Site) moveBehind(f *elffile.File, fn userfile.Symbol) bool {
	skip := usercode.BehindStackCheck(f, fn)
	off, ok := f.Offset(fn.Value + skip)
	if skip == 0 || !ok {
		return false
	}
	s.Address, s.Offset = fn.Value+skip, off
	return true
}

// goReturns puts the probe on every return instruction.
func (r *resolver) goReturns(f *elffile.File, p ProgramPlan, site Site, s userfile.Symbol) error {
	if s.Size == 0 {
		return errors.New("its size is not known, so its return instructions can't be found; return probes would break goroutine stacks")
	}
	text, err := r.code.Follow(s.Value, s.Size)
	if err != nil {
		return err
	}
	rets, err := usercode.Returns(f.Machine, text)
	if err != nil {
		return err
	}
	if len(rets) == 0 {
		return errors.New("it has no return instruction: it never returns, or leaves by a jump")
	}
	p.Returns, p.Args = true, nil
	abi := goABIs[usercode.Arch(f.Machine)]
	p.Ret = abi.untypedRet(true)
	r.typeUser(&p, f, s, true)
	p.FallbackReason = "Go: uprobes on the return instructions, because return probes break goroutine stacks"
	for _, off := range rets {
		site.Address = s.Value + off
		fo, ok := f.Offset(site.Address)
		if !ok {
			return notexist.Errorf("address %#x is not in a loaded segment", site.Address)
		}
		site.Offset = fo
		p.Sites = append(p.Sites, site)
	}
	r.add(p)
	return nil
}

// goTarget returns a description of the Go program that a probe is in. It is read once
// for all probes in the program.
func (r *resolver) goTarget(f *elffile.File, path string) *GoTarget {
	if r.code.program == nil {
		v := usercode.GoVersion(f)
		r.code.program = &GoTarget{
			GReg: usercode.GoRegs[usercode.Arch(f.Machine)], Version: v,
			GoidOffset: usercode.GoidOffset(v),
		}
	}
	return r.code.program
}
