package usdtfire

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/usdt"
)

func TestMaxArgs(t *testing.T) {
	if MaxArgs != usdt.MaxArgs {
		t.Errorf("%d, package usdt has %d", MaxArgs, usdt.MaxArgs)
	}
}

// TestFrame pins the layout that the assembly knows.
func TestFrame(t *testing.T) {
	var f frame
	if unsafe.Offsetof(f.pointers) != 96 || unsafe.Sizeof(f) != 192 && unsafe.Sizeof(uintptr(0)) == 8 {
		t.Errorf("pointers at %d of %d", unsafe.Offsetof(f.pointers), unsafe.Sizeof(f))
	}
}

// TestPool reads the stubs in this program's text.
func TestPool(t *testing.T) {
	if Stub(1) == 0 {
		testenv.Need(t, testenv.Missing("stubs", "none on "+runtime.GOARCH))
	}
	at := func(addr uintptr) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), StubSize) }
	mark := *(*[2]uint64)(unsafe.Pointer(&at(Stub(1) - StubSize)[0]))
	if mark != [2]uint64{PoolMark0, PoolMark1} {
		t.Errorf("mark is %#x", mark)
	}
	for i := uint32(1); i <= PoolSize; i++ {
		text := at(Stub(i))
		for _, target := range Targets {
			if string(text[:len(target.Stub)]) == string(target.Stub) {
				text = nil
				break
			}
		}
		if text != nil {
			t.Errorf("stub %d is %x", i, text)
		}
	}
}
