package probe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/perfring"
	"github.com/borescope/borescope/pmc"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// Watchpoint fires when memory is read, written or executed.
// "watchpoint:0x10000:8:rw".
type Watchpoint struct {
	// Address is an address of the process PID, or of the kernel; a multiple of Length.
	Address uint64
	// Symbol is a kernel data symbol, used instead of Address.
	Symbol string
	Length int    // 1, 2, 4 or 8 bytes
	Mode   string // any of "r", "w", "x" together
	PID    int    // 0: all processes (kernel addresses), else this process
}

func (t Watchpoint) requires(q *requirer) {
	q.perf()
	q.feature(feature.Watchpoint, "watchpoints")
	if t.Symbol != "" {
		q.capability("CAP_SYSLOG", "the address of a kernel variable in /proc/kallsyms")
	}
}

func (t Watchpoint) list(l *lister) error { return l.put(Match{Target: t}) }

func (Watchpoint) word() string { return "watchpoint" }

func parseWatchpoint(s *spelling.Scanned) (Target, error) {
	p, err := s.Exactly(3, "watchpoint:ADDRESS:LENGTH:MODE", "")
	if err != nil {
		return nil, err
	}
	w := Watchpoint{Mode: p[2].Text}
	if spelling.IsAddress(p[0]) {
		if w.Address, err = s.Number(p[0], 64); err != nil {
			return nil, err
		}
	} else {
		w.Symbol = p[0].Text
	}
	n, err := s.Number(p[1], 8)
	if err != nil {
		return nil, err
	}
	if n != 1 && n != 2 && n != 4 && n != 8 {
		return nil, s.Errorf(p[1].Off, "a watchpoint is 1, 2, 4 or 8 bytes long")
	}
	w.Length = int(n)
	for i := range w.Mode {
		if !strings.Contains("rwx", w.Mode[i:i+1]) || strings.Contains(w.Mode[:i], w.Mode[i:i+1]) {
			return nil, s.Errorf(p[2].Off+i, "bad mode %q: want any of r, w, x, each once", w.Mode)
		}
	}
	return w, nil
}

// String returns "watchpoint:ADDRESS:LENGTH:MODE", with " pid=N".
func (t Watchpoint) String() string {
	where := fmt.Sprintf("0x%x", t.Address)
	if t.Symbol != "" {
		where = spelling.QuoteName(t.Symbol)
	}
	return fmt.Sprintf("watchpoint:%s:%d:%s%s", where, t.Length, t.Mode, pid(t.PID))
}

// resolve resolves a hardware breakpoint.
func (t Watchpoint) resolve(r *resolver) error {
	access, err := watchMode(t)
	if err != nil {
		return err
	}
	if err := r.env.Supports(feature.Watchpoint); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if t.Symbol != "" {
		if t.Address, err = r.env.KernelVariable(t.Symbol); err != nil {
			return err
		}
	}
	if t.Address == 0 || t.Address%uint64(t.Length) != 0 && access != pmc.BPExec {
		return fmt.Errorf("address %#x is not a multiple of the length %d, which the debug registers need", t.Address, t.Length)
	}
	if t.PID == 0 && t.Address < 1<<63 {
		return errors.New("a user address is watched in one process: say which (pid=)")
	}
	p := ProgramPlan{
		Type: ebpf.PerfEvent, AttachType: ebpf.AttachPerfEvent, Context: ContextPerf,
		Fields: perfFields(r.env.Arch()), Method: MethodPerfLink,
	}
	if t.PID != 0 {
		p.Sites = []Site{{Target: t, Address: t.Address, Symbol: t.Symbol, PID: t.PID, CPU: -1}}
		r.add(p)
		return nil
	}
	list, err := r.env.OnlineCPUs()
	if err != nil {
		return err
	}
	for _, c := range list {
		p.Sites = append(p.Sites, Site{Target: t, Address: t.Address, Symbol: t.Symbol, CPU: c})
	}
	r.add(p)
	return nil
}

// event encodes a breakpoint.
func (t Watchpoint) event(_ *attacher, _ *ProgramPlan, s *Site) (*perfevent.Event, error) {
	access, err := watchMode(t)
	if err != nil {
		return nil, err
	}
	length := t.Length
	if access == pmc.BPExec {
		length = 8 // sizeof(long), arch_build_bp_info of x86
	}
	ev := &perfevent.Event{What: pmc.Breakpoint(s.Address, length, access), PID: -1, CPU: s.CPU}
	ev.Attr = ev.What.Attr()
	ev.Attr.Flags &^= perfring.AttrExcludeGuest
	ev.Attr.Sample = 1
	return ev, nil
}

// watchMode returns the access as pmc encodes it.
func watchMode(t Watchpoint) (uint32, error) {
	var access uint32
	for i := range t.Mode {
		switch t.Mode[i] {
		case 'r':
			access |= pmc.BPRead
		case 'w':
			access |= pmc.BPWrite
		case 'x':
			access |= pmc.BPExec
		default:
			return 0, fmt.Errorf("bad mode %q: want any of r, w, x", t.Mode)
		}
	}
	switch t.Length {
	case 1, 2, 4, 8:
	default:
		return 0, fmt.Errorf("bad length %d: a watchpoint is 1, 2, 4 or 8 bytes long", t.Length)
	}
	if access == 0 {
		return 0, errors.New("no mode: want any of r, w, x")
	}
	if access&pmc.BPExec != 0 && access != pmc.BPExec {
		return 0, errors.New("x does not go with r or w: a debug register watches execution or data")
	}
	return access, nil
}

var watchpointSpelled = spelled{words: []string{"watchpoint", "w"}, parse: parseWatchpoint}

func (t Watchpoint) withPID(pid int) Target {
	t.PID = pid
	return t
}
