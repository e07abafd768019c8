package cdecl

import (
	"fmt"
	"runtime"
)

// machine contains the differences between machines of the same size and byte order.
type machine struct {
	macros       []string // macros that compilers for it define
	unsignedChar bool     // plain char
	// alignUnnamed makes unnamed bit fields count for a struct's alignment: "without exception
	// for zero-sized or anonymous bit-fields" (AAPCS64, Bit-fields).
	alignUnnamed bool
}

func machineOf(arch string) (*machine, error) {
	if arch == "" {
		arch = runtime.GOARCH
	}
	switch arch {
	case "amd64":
		return &machine{macros: []string{"__x86_64__", "__x86_64", "__amd64__", "__amd64"}}, nil
	case "arm64":
		return &machine{macros: []string{"__aarch64__"}, unsignedChar: true, alignUnnamed: true}, nil
	case "riscv64":
		return &machine{macros: []string{"__riscv"}, unsignedChar: true}, nil
	case "loong64":
		return &machine{macros: []string{"__loongarch__", "__loongarch64"}}, nil
	case "ppc64le":
		return &machine{macros: []string{"__powerpc__", "__powerpc64__"}, unsignedChar: true}, nil
	}
	return nil, fmt.Errorf("how C lays out types on %q is not known here: take amd64, arm64, "+
		"riscv64, loong64 or ppc64le", arch)
}

// macro returns the text of a macro that a compiler for the machine defines.
func (m *machine) macro(name string) (text string, ok bool) {
	for _, own := range m.macros {
		if name == own {
			return "1", true
		}
	}
	switch name {
	case "__STDC__", "__LP64__", "_LP64", "__linux__", "__linux", "__unix__":
		return "1", true
	case "__STDC_VERSION__":
		return "201112L", true
	case "__GNUC__":
		return "12", true
	case "__GNUC_MINOR__":
		return "2", true
	case "__CHAR_BIT__", "__SIZEOF_LONG__", "__SIZEOF_POINTER__", "__SIZEOF_LONG_LONG__",
		"__SIZEOF_SIZE_T__":
		return "8", true
	case "__SIZEOF_INT__":
		return "4", true
	case "__SIZEOF_SHORT__":
		return "2", true
	case "__SIZEOF_INT128__":
		return "16", true
	case "__BYTE_ORDER__", "__ORDER_LITTLE_ENDIAN__":
		return "1234", true
	case "__ORDER_BIG_ENDIAN__":
		return "4321", true
	case "__LITTLE_ENDIAN__":
		return "1", m.macros[0] != "__x86_64__"
	case "__CHAR_UNSIGNED__":
		return "1", m.unsignedChar
	}
	return "", false
}
