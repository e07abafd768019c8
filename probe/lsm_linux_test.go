package probe

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// refusing returns -EPERM to this process, and counts how often, and to others
// what they would have got: the argument behind the hook's own.
func refusing(m *ebpf.Map, ret int16) asm.Instructions {
	return probetest.OwnIDs(asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.JEq.Imm(asm.R0, int32(os.Getpid()), "own"),
		asm.LoadMem(asm.R0, asm.R6, ret, asm.DWord),
		// The value as an int, which the verifier bounds for security hooks.
		asm.JEq.Imm(asm.R0, 0, "allow"),
		asm.Mov.Imm(asm.R0, -int32(syscall.EACCES)),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("allow"),
		asm.Return(),
		asm.LoadMapValue(asm.R1, m.FD(), 0).WithSymbol("own"),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R1, asm.R2, asm.DWord, 0),
		asm.Mov.Imm(asm.R0, -int32(syscall.EPERM)),
		asm.Return(),
	})
}

// expectRefused attaches to what every open goes through: each is refused, and
// counted, until the link is closed.
func expectRefused(t *testing.T, target string, ret int16) {
	t.Helper()
	plan := mustResolve(t, nil, target)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	spec := plan.ProgramSpec(0)
	spec.License, spec.Instructions = "GPL", refusing(m, ret)
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	defer prog.Close()
	l, err := plan.Attach(map[string]*ebpf.Program{spec.Name: prog}, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for range probetest.Times {
		f, err := os.Open("/dev/null")
		if errors.Is(err, syscall.EPERM) {
			refused++
		}
		f.Close()
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	var n uint64
	if err := m.Lookup(uint32(0), &n); err != nil {
		t.Fatal(err)
	}
	if refused != probetest.Times || n != probetest.Times {
		t.Errorf("%d of %d were refused, %d counted", refused, probetest.Times, n)
	}
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Errorf("after closing the link: %v", err)
	}
	f.Close()
}

// TestFmodRetCounts: a program decides what a function returns.
func TestFmodRetCounts(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Fentry, testenv.Feature(feature.Fexit))
	expectRefused(t, "fmod_ret:security_file_open", 8)
}

// TestLSMCounts needs a kernel that was started with bpf among its lsm=.
func TestLSMCounts(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Root, testenv.Feature(feature.LSM))
	expectRefused(t, "lsm:file_open", 8)
}
