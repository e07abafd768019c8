package usdtfire

import (
	"debug/elf"
	"errors"
	"fmt"
	"strings"

	"github.com/borescope/borescope/usdt/arg"
)

// Target is a machine for which probes are made.
type Target struct {
	Machine elf.Machine
	// Stub is the code of a nop and a return.
	Stub []byte
	arg  func(slot, size int) string
}

var amd64Names = [...]string{"di", "si", "dx", "cx", "8", "9", "ax", "10", "11", "12", "13", "bx"}

// amd64Register returns the name of an argument's register in its size. The order of the
// registers is that of call_amd64.s.
func amd64Register(slot, size int) string {
	r := amd64Names[slot]
	if r[0] <= '9' {
		return "%r" + r + map[int]string{1: "b", 2: "w", 4: "d", 8: ""}[size]
	}
	switch size {
	case 1:
		if r[1] == 'x' {
			return "%" + r[:1] + "l"
		}
		return "%" + r + "l"
	case 2:
		return "%" + r
	case 4:
		return "%e" + r
	}
	return "%r" + r
}

// Targets contains the machines, by GOARCH.
var Targets = map[string]Target{
	"amd64": {elf.EM_X86_64, []byte{0x90, 0xc3}, amd64Register},
	// Compilers use the name of the 64-bit register for arguments of any size.
	"arm64": {
		elf.EM_AARCH64,
		[]byte{0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6},
		func(slot, _ int) string {
			return fmt.Sprintf("x%d", slot)
		},
	},
}

// Spec returns the argument specification of a probe with arguments of these types.
func (t Target) Spec(list []arg.Type) string {
	var specs []string
	add := func(info typeInfo) {
		sign := ""
		if info.signed {
			sign = "-"
		}
		specs = append(specs, fmt.Sprintf("%s%d@%s", sign, info.size, t.arg(len(specs), int(info.size))))
	}
	for _, typ := range list {
		add(types[typ])
		if typ == arg.String {
			add(types[arg.Int64])
		}
	}
	return strings.Join(specs, " ")
}

// CheckName returns an error for an invalid name of a provider or probe.
func CheckName(name string) error {
	if name == "" || len(name) > 128 {
		return errors.New("name must have 1 to 128 bytes")
	}
	for _, c := range []byte(name) {
		if !(c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
			return fmt.Errorf("byte %q in name: want letters, digits, '_', '-' and '.'", c)
		}
	}
	return nil
}
