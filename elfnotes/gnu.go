package elfnotes

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"
)

// gnuSpec returns the spec of a type of owner "GNU": NT_GNU_* in glibc's elf.h.
func gnuSpec(typ uint32) spec {
	switch typ {
	case 1:
		return spec{"abi-tag", decodeABITag}
	case 2:
		return spec{"hwcap", decodeHWCap}
	case 3:
		return spec{"build-id", func(n Note) (Value, error) { return ID(n.Desc), nil }}
	case 4:
		return spec{"gold-version", decodeText}
	case 5:
		return spec{"property", decodeProperties}
	}
	return spec{}
}

// ABITag is the oldest kernel that a program works on: NT_GNU_ABI_TAG.
type ABITag struct {
	OS       uint32 `json:"os"`
	Major    uint32 `json:"major"`
	Minor    uint32 `json:"minor"`
	Subminor uint32 `json:"subminor"`
}

var abiOS = []string{"Linux", "Hurd", "Solaris", "FreeBSD", "NetBSD", "Syllable", "NaCl"}

// String reads "Linux 3.2.0".
func (t ABITag) String() string {
	name := fmt.Sprintf("OS %d", t.OS)
	if t.OS < uint32(len(abiOS)) {
		name = abiOS[t.OS]
	}
	return fmt.Sprintf("%s %d.%d.%d", name, t.Major, t.Minor, t.Subminor)
}

func (ABITag) value() {}

func decodeABITag(n Note) (Value, error) {
	r := newReader(n)
	t := ABITag{r.u32(), r.u32(), r.u32(), r.u32()}
	return t, r.err()
}

// HWCap is a vDSO's or library's NT_GNU_HWCAP: names for hardware capability
// bits beyond the kernel's.
type HWCap struct {
	// Mask has the bits that are enabled.
	Mask uint32 `json:"mask"`
	// Names are the bits and their names, in file order.
	Names []HWCapName `json:"names"`
}

// HWCapName is a bit number and its name.
type HWCapName struct {
	Bit  uint8  `json:"bit"`
	Name string `json:"name"`
}

// String reads "mask 0x1: 0 nosegneg".
func (h HWCap) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "mask %#x:", h.Mask)
	for _, name := range h.Names {
		fmt.Fprintf(&b, " %d %s", name.Bit, name.Name)
	}
	return b.String()
}

func (HWCap) value() {}

func decodeHWCap(n Note) (Value, error) {
	r := newReader(n)
	count := r.u32()
	h := HWCap{Mask: r.u32()}
	for range count {
		bit := r.bytes(1)
		if r.short {
			break
		}
		h.Names = append(h.Names, HWCapName{bit[0], r.cstring()})
	}
	return h, r.err()
}

// Properties is NT_GNU_PROPERTY_TYPE_0: the needs and promises of a file's code, merged by
// the linker over its objects.
type Properties []Property

// Property is one element of Properties.
type Property struct {
	// Type is GNU_PROPERTY_*; its meaning from 0xc0000000 on depends on Machine.
	Type uint32 `json:"type"`
	// Name is the property in words: "x86 feature", "stack size".
	Name string `json:"name"`
	// Data is the value as stored.
	Data Raw `json:"data"`
	// Number is Data as a number, if it is 4 or 8 bytes; else 0.
	Number uint64 `json:"number"`
	// Text is the value in words: "IBT, SHSTK".
	Text string `json:"text"`
}

// String reads "x86 feature: IBT, SHSTK; x86 ISA needed: x86-64-baseline".
func (p Properties) String() string {
	parts := make([]string, len(p))
	for i, prop := range p {
		parts[i] = prop.Name
		if prop.Text != "" {
			parts[i] += ": " + prop.Text
		}
	}
	return strings.Join(parts, "; ")
}

func (Properties) value() {}

func decodeProperties(n Note) (Value, error) {
	align := n.word()
	if n.Class == elf.ELFCLASSNONE {
		align = n.Align
	}
	r := newReader(n)
	p := Properties{}
	for len(r.b) >= 8 {
		typ, size := r.u32(), r.u32()
		data := r.bytes(int(size))
		if r.short {
			return nil, fmt.Errorf("property %#x of %d bytes is cut off", typ, size)
		}
		p = append(p, n.property(typ, data))
		r.bytes(min(len(r.b), int(roundUp(uint64(size), uint64(align)))-int(size)))
	}
	if len(r.b) > 0 {
		return nil, errors.New("property is cut off")
	}
	return p, nil
}

// property names one property: GNU_PROPERTY_* of the Linux gABI extensions,
// the x86-64 psABI and the AArch64 sysvabi.
func (n Note) property(typ uint32, data []byte) Property {
	p := Property{Type: typ, Data: data}
	switch len(data) {
	case 4:
		p.Number = uint64(n.Order.Uint32(data))
	case 8:
		p.Number = n.Order.Uint64(data)
	}
	switch {
	case typ == 1:
		p.Name, p.Text = "stack size", fmt.Sprintf("%#x", p.Number)
	case typ == 2:
		p.Name = "no copy on protected"
	case typ == 0xb0008000:
		p.Name, p.Text = "1_needed", flagNames(p.Number, []string{"indirect external access"})
	case typ >= 0xc0000000 && typ < 0xe0000000 && n.machineProperty(&p):
	default:
		p.Name, p.Text = fmt.Sprintf("property %#x", typ), p.Data.String()
	}
	return p
}

var (
	x86Features  = []string{"IBT", "SHSTK", "LAM_U48", "LAM_U57"}
	x86Features2 = []string{
		"x86", "x87", "MMX", "XMM", "YMM", "ZMM", "FXSR", "XSAVE", "XSAVEOPT",
		"XSAVEC", "TMM", "MASK",
	}
	x86ISA = []string{"x86-64-baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4"}
	// The two values of binutils before 2.36 numbered single instruction sets.
	x86ISAOld = []string{
		"i486", "586", "686", "SSE", "SSE2", "SSE3", "SSSE3", "SSE4_1", "SSE4_2",
		"AVX", "AVX2", "FMA", "AVX512F",
	}
	arm64Features  = []string{"BTI", "PAC", "GCS"}
	riscvFeatures  = []string{"CFI_LP_UNLABELED", "CFI_SS", "CFI_LP_FUNC_SIG"}
	machineAndType = map[elf.Machine]map[uint32]struct {
		name  string
		flags []string
	}{
		elf.EM_X86_64: {
			0xc0000000: {"x86 ISA used (old)", x86ISAOld},
			0xc0000001: {"x86 ISA needed (old)", x86ISAOld},
			0xc0000002: {"x86 feature", x86Features},
			0xc0008001: {"x86 feature needed", x86Features2},
			0xc0008002: {"x86 ISA needed", x86ISA},
			0xc0010001: {"x86 feature used", x86Features2},
			0xc0010002: {"x86 ISA used", x86ISA},
		},
		elf.EM_AARCH64: {0xc0000000: {"AArch64 feature", arm64Features}},
		elf.EM_RISCV:   {0xc0000000: {"RISC-V feature", riscvFeatures}},
	}
)

// machineProperty fills in the name of a property that depends on the machine.
func (n Note) machineProperty(p *Property) bool {
	m := n.Machine
	if m == elf.EM_386 {
		m = elf.EM_X86_64
	}
	if m == elf.EM_AARCH64 && p.Type == 0xc0000001 && len(p.Data) == 16 {
		p.Name = "AArch64 PAuth ABI"
		p.Text = fmt.Sprintf("platform %#x version %#x", n.Order.Uint64(p.Data),
			n.Order.Uint64(p.Data[8:]))
		return true
	}
	known, ok := machineAndType[m][p.Type]
	if !ok {
		return false
	}
	p.Name, p.Text = known.name, flagNames(p.Number, known.flags)
	return true
}
