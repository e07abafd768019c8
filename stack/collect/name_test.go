package collect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/symbol"
)

// spelled names addresses by a letter and their number, and counts how often it is asked.
type spelled struct {
	letter string
	asked  *int
}

func (s spelled) Resolve(dst []symbol.Frame, pcs []uint64) []symbol.Frame {
	*s.asked++
	for i, pc := range pcs {
		dst = append(dst, symbol.Frame{Index: i, Name: fmt.Sprint(s.letter, pc), Kind: symbol.KindUser})
	}
	return dst
}

// Each address space is asked once for all samples, wakers stand turned over below those that
// they woke, and a process that is not there has frames without names.
func TestNamer(t *testing.T) {
	asked := 0
	n := NewNamer(spelled{"k", &asked}, func(pid int) symbol.Resolver {
		if pid == 9 {
			return nil
		}
		return spelled{fmt.Sprint("p", pid, "."), &asked}
	})
	walked := func(pcs ...uint64) (s stack.Stack) {
		for i, pc := range pcs {
			s.Frames = append(s.Frames, stack.Frame{PC: pc, Return: i > 0})
		}
		return s
	}
	in := []Sample{
		{PID: 7, Kernel: walked(1, 12), User: walked(5, 16), Count: 3, Value: 30},
		{PID: 9, User: walked(5), Count: 1, Value: 1},
		{PID: 7, Kernel: walked(1), Waker: &Waker{PID: 8, Kernel: walked(1, 22), User: walked(25, 36)}, Count: 2, Value: 20},
	}
	want := []string{
		"[3 30] k1/kernel k11/kernel p7.5/user p7.15/user",
		"[1 1] [unknown]/user",
		"[2 20] p8.35/waker p8.25/waker k21/waker k1/waker k1/kernel",
	}
	for i, s := range n.Samples(in) {
		line := []string{fmt.Sprint(s.Values)}
		for _, f := range s.Frames {
			line = append(line, f.AppendNames(nil, false)[0]+"/"+f.Kind.String())
		}
		if got := strings.Join(line, " "); got != want[i] {
			t.Errorf("sample %d: %s, want %s", i, got, want[i])
		}
	}
	if n.Samples(in); asked != 3 {
		t.Errorf("%d questions of 3 address spaces", asked)
	}
}
