package elfnotes

import (
	"debug/elf"
	"fmt"
	"strings"
)

// FPRegs are the floating point and vector registers of a thread: NT_FPREGSET.
// Vectors are as stored, in the note's byte order.
type FPRegs struct {
	// Vectors are xmm0 … xmm15 (amd64: 16, 386 in its old format: none) or
	// v0 … v31 (arm64), 16 bytes each.
	Vectors [][16]byte `json:"vectors"`
	// Control is mxcsr (amd64) or fpcr (arm64), Status the x87 status word
	// (amd64) or fpsr (arm64).
	Control uint32 `json:"control"`
	Status  uint32 `json:"status"`
	// Raw is the whole register set, for other machines and for x87.
	Raw Raw `json:"-"`
}

// String reads "32 vector registers, control 0x0 status 0x10".
func (f FPRegs) String() string {
	return fmt.Sprintf("%d vector registers, control %#x status %#x", len(f.Vectors), f.Control,
		f.Status)
}

func (FPRegs) value() {}

func decodeFPRegs(n Note) (Value, error) {
	f := FPRegs{Raw: n.Desc}
	r := newReader(n)
	switch {
	case n.Machine == elf.EM_X86_64: // struct user_fpregs_struct, the FXSAVE image
		f.fxsave(r)
	case n.Machine == elf.EM_AARCH64: // struct user_fpsimd_state
		f.vectors(r, 32)
		f.Status, f.Control = r.u32(), r.u32()
	}
	return f, r.err()
}

// fxsave reads the FXSAVE image, Intel SDM volume 1, table 10-2.
func (f *FPRegs) fxsave(r *reader) {
	r.skip(2)
	f.Status = uint32(r.u16())
	r.skip(20)
	f.Control = r.u32()
	r.skip(4 + 128) // x87 registers
	f.vectors(r, 16)
}

func (f *FPRegs) vectors(r *reader, count int) {
	for range count {
		if b := r.bytes(16); b != nil {
			f.Vectors = append(f.Vectors, [16]byte(b))
		}
	}
}

// XState is the XSAVE area of a thread on x86: NT_X86_XSTATE. The places of its components
// depend on the CPU; newer core files have an XSaveLayout with them.
type XState struct {
	// XCR0 is the set of components that the kernel had enabled, Used that of the enabled ones
	// that are not in their initial state.
	XCR0 uint64 `json:"xcr0"`
	Used uint64 `json:"used"`
	// Legacy is the part that FXSAVE stores too.
	Legacy FPRegs `json:"legacy"`
	// Area is the whole area.
	Area Raw `json:"-"`
}

// xFeatures are the XSAVE components, enum xfeature in the kernel's
// arch/x86/include/asm/fpu/types.h.
var xFeatures = []string{
	"x87", "SSE", "AVX", "BNDREGS", "BNDCSR", "opmask", "ZMM_Hi256", "Hi16_ZMM", "PT", "PKRU", "PASID",
	"CET_U", "CET_S", "HDC", "UINTR", "LBR", "HWP", "XTILECFG", "XTILEDATA", "APX",
}

// String reads "xcr0 x87, SSE, AVX used x87, SSE, 2696 bytes".
func (x XState) String() string {
	return fmt.Sprintf("xcr0 %s used %s, %d bytes", flagNames(x.XCR0, xFeatures),
		flagNames(x.Used, xFeatures), len(x.Area))
}

func (XState) value() {}

func decodeXState(n Note) (Value, error) {
	x := XState{Area: n.Desc}
	r := newReader(n)
	x.Legacy.fxsave(r)
	// The kernel keeps XCR0 in the bytes that FXSAVE leaves to software; the
	// XSAVE header follows at 512.
	r = newReader(n)
	r.skip(464)
	x.XCR0 = r.u64()
	r.skip(40)
	x.Used = r.u64()
	return x, r.err()
}

// XSaveLayout lists the place of each component in an XState of the same core file:
// NT_X86_XSAVE_LAYOUT, written since Linux 6.12.
type XSaveLayout []XSaveComponent

// XSaveComponent is one component of the XSAVE area.
type XSaveComponent struct {
	// Type is the component's number, Name its name.
	Type uint32 `json:"type"`
	Name string `json:"name"`
	// Size and Offset are in bytes, in the area.
	Size   uint32 `json:"size"`
	Offset uint32 `json:"offset"`
	Flags  uint32 `json:"flags"`
}

// String reads "AVX 576+256; …".
func (l XSaveLayout) String() string {
	parts := make([]string, len(l))
	for i, c := range l {
		parts[i] = fmt.Sprintf("%s %d+%d", c.Name, c.Offset, c.Size)
	}
	return strings.Join(parts, "; ")
}

func (XSaveLayout) value() {}

// decodeXSaveLayout reads an array of struct x86_xfeat_component,
// arch/x86/include/uapi/asm/elf.h.
func decodeXSaveLayout(n Note) (Value, error) {
	l := XSaveLayout{}
	for r := newReader(n); len(r.b) > 0; {
		c := XSaveComponent{Type: r.u32(), Size: r.u32(), Offset: r.u32(), Flags: r.u32()}
		if r.short {
			return nil, r.err()
		}
		c.Name = fmt.Sprint(c.Type)
		if c.Type < uint32(len(xFeatures)) {
			c.Name = xFeatures[c.Type]
		}
		l = append(l, c)
	}
	return l, nil
}

// ArmWords is a register set of arm or arm64 that is a few words: the TLS
// registers, the system call number, the masks and controls of pointer
// authentication and tagging.
type ArmWords []uint64

// String returns the words in hex.
func (w ArmWords) String() string {
	s := make([]string, len(w))
	for i, v := range w {
		s[i] = fmt.Sprintf("%#x", v)
	}
	return strings.Join(s, " ")
}

func (ArmWords) value() {}

// decodeArmWords reads words of 8 bytes on arm64, and of 4 if the descriptor has no more: arm's
// TLS, arm64's system call number.
func decodeArmWords(n Note) (Value, error) {
	w := ArmWords{}
	for r := newReader(n); len(r.b) > 0; {
		if n.word() == 4 || len(r.b) == 4 {
			w = append(w, uint64(r.u32()))
		} else {
			w = append(w, r.u64())
		}
		if r.short {
			return nil, r.err()
		}
	}
	return w, nil
}
