package bpfasm

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/testenv"
)

// TestClaims: an area is one program's until that gives it back, and who found it taken leaves no trace.
func TestClaims(t *testing.T) {
	testenv.Need(t, testenv.Root)
	for _, c := range []Claims{{}, {Exchange: true}} {
		t.Run(fmt.Sprintf("exchange_%v", c.Exchange), func(t *testing.T) {
			m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			// It claims the area twice, and returns how often that succeeded: with release, it gives it back between.
			run := func(release bool) uint32 {
				var a Assembler
				a.Add(asm.Mov.Imm(asm.R6, 0), asm.LoadMapValue(asm.R7, m.FD(), 0))
				for _, taken := range []string{"first", "second"} {
					a.Add(c.Claim(asm.R7, 8, taken)...)
					a.Add(asm.Add.Imm(asm.R6, 1))
					if release {
						a.Add(c.Release(asm.R7, 8)...)
					}
					a.Add(asm.Ja.Label(taken + "_end"))
					a.Label(taken)
					a.Add(c.Taken(asm.R7, 8)...)
					a.Label(taken + "_end")
				}
				a.Add(asm.Mov.Reg(asm.R0, asm.R6), asm.Return())
				p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SocketFilter, Instructions: a.Finish(), License: "MIT"})
				if err != nil {
					if c.Exchange {
						testenv.Need(t, testenv.Got("atomic exchange", err, "uses reserved fields"))
					}
					t.Fatal(err)
				}
				defer p.Close()
				n, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			word := func() (v [2]uint64) {
				if err := m.Lookup(uint32(0), &v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			if n, w := run(true), word(); n != 2 || w != [2]uint64{} {
				t.Errorf("claimed %d of 2 times, then %v", n, w)
			}
			if n, w := run(false), word(); n != 1 || w != [2]uint64{0, 1} {
				t.Errorf("claimed %d times without giving it back, then %v", n, w)
			}
			if n, w := run(false), word(); n != 0 || w != [2]uint64{0, 1} {
				t.Errorf("claimed %d times what another has, then %v", n, w)
			}
		})
	}
}
