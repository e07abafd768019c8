package probe

import (
	"fmt"

	"github.com/borescope/borescope/probe/internal/usercode"
)

// This file places the arguments of user functions by the calling conventions.

// byConvention returns where the calling convention puts each of the arguments.
func (f *userFunction) byConvention() []placed {
	c := conventionPlacer{f: f, regs: argRegs{abi: &f.abi, ints: f.abi.args, floats: 8}}
	if hidden := f.sig.Hidden(); hidden.How == usercode.PassedUnknown {
		c.lost = "where the arguments are depends on how the value is returned: " + hidden.Why
	} else if hidden.ByPointer() && !f.abi.byReference {
		c.regs.ints = c.regs.ints[1:] // the caller passes where the value is to be written
	}
	out := make([]placed, 0, len(f.sig.Params))
	for i, p := range f.sig.Params {
		at := placed{why: c.lost}
		if c.lost == "" {
			at = c.place(p)
		}
		if at.why != "" && c.lost == "" && at.unknown {
			c.lost = fmt.Sprintf("where it is depends on how %s is passed: %s", paramName(p.Name, i), at.why)
		}
		out = append(out, at)
	}
	return out
}

// conventionPlacer places arguments one after the other.
type conventionPlacer struct {
	f     *userFunction
	regs  argRegs
	stack int64  // bytes of arguments in memory
	lost  string // why the further ones cannot be placed
}

func (c *conventionPlacer) place(p usercode.Param) placed {
	how := c.f.sig.Passing(p)
	byReference := c.f.abi.byReference && how.How == usercode.PassedInMemory &&
		!(how.Floats > 0)
	switch {
	case how.How == usercode.PassedUnknown:
		return placed{why: how.Why, unknown: true}
	case c.f.sig.LLVM && len(c.regs.ints) == 1 && how.Align == 16 && how.Words[1] == usercode.WordOther &&
		!isAggregate(p.Type) && !c.f.abi.byReference:
		// LLVM before 18 passes one half of it in the last register, the psABI none.
		return placed{why: "LLVM's versions pass its 16 bytes in different places", unknown: true}
	case how.How == usercode.PassedNowhere:
		return placed{why: "it has no contents"}
	case how.How == usercode.PassedByAddress || byReference:
		pointer := usercode.Passing{
			How: usercode.PassedInWords, Size: 8, Align: 8,
			Words: [2]usercode.Word{usercode.WordOther},
		}
		if _, ok := c.regs.take(pointer); !ok {
			c.memory(pointer)
		}
		return placed{why: byValue(isAggregate(p.Type), 0)}
	case how.Apart:
		return placed{pieces: c.apart(how)}
	case how.How == usercode.PassedInWords || c.f.abi.byReference:
		if at, ok := c.regs.take(how); ok {
			return placed{pieces: at}
		}
	}
	return placed{pieces: c.memory(how)}
}

// apart places the words of a value one by one.
func (c *conventionPlacer) apart(how usercode.Passing) (at []piece) {
	for i, w := range how.Words {
		one := usercode.Passing{
			How: usercode.PassedInWords, Size: min(8, how.Size-8*i), Align: 8,
			Words: [2]usercode.Word{w},
		}
		if w == usercode.WordFloat {
			one.Floats = 1
		}
		pieces, ok := c.regs.take(one)
		if !ok {
			pieces = c.memory(one)
		}
		for _, p := range pieces {
			p.offset = 8 * i
			at = append(at, p)
		}
	}
	return at
}

// memory takes the next bytes of the memory in which arguments are passed.
func (c *conventionPlacer) memory(how usercode.Passing) []piece {
	if how.Align >= 16 {
		c.stack = (c.stack + 15) &^ 15
	}
	loc := Location{Kind: LocationStack, Offset: c.f.abi.stackArgs + c.stack}
	c.stack += int64(how.Size+7) &^ 7
	return []piece{{0, how.Size, loc}}
}

// argRegs hands out the registers in which arguments are passed, or values returned.
type argRegs struct {
	abi    *callABI
	ints   []int // those that are left
	floats int   // the number of those that are left
}

// take takes registers for a value; ok is false if there are too few.
func (r *argRegs) take(p usercode.Passing) (at []piece, ok bool) {
	words := (p.Size + 7) / 8
	if r.abi.byReference { // AAPCS64 6.8.2, C.1 to C.14
		if p.Floats > 0 {
			if ok = r.floats >= p.Floats; !ok {
				p.Floats = r.floats
			}
			r.floats -= p.Floats
			return []piece{{0, p.Size, Location{Reason: inFloatReg}}}, ok
		}
		if p.Align >= 16 && len(r.ints)%2 == 1 {
			r.ints = r.ints[1:]
		}
		if len(r.ints) < words {
			r.ints = nil
			return nil, false
		}
		p.Words = [2]usercode.Word{usercode.WordOther, usercode.WordOther}
	}
	ints, floats := 0, 0
	for _, w := range p.Words[:words] {
		switch w {
		case usercode.WordOther:
			ints++
		case usercode.WordFloat:
			floats++
		}
	}
	if p.Floats == 1 {
		floats = 1 // also of 16 bytes
	}
	if ints > len(r.ints) || floats > r.floats {
		return nil, false
	}
	r.floats -= floats
	for i, w := range p.Words[:words] {
		loc := Location{Reason: inFloatReg}
		if w == usercode.WordOther {
			loc = Location{Kind: LocationReg, Reg: r.ints[0]}
			r.ints = r.ints[1:]
		}
		if w != usercode.WordPadding {
			at = append(at, piece{8 * i, min(8, p.Size-8*i), loc})
		}
	}
	return at, true
}
