package probe

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/pmc"
)

// ptRegsSize is sizeof(bpf_user_pt_regs_t), which struct bpf_perf_event_data
// begins with (arch/*/include/uapi/asm/bpf_perf_event.h).
var ptRegsSize = map[string]int64{"amd64": 21 * 8, "arm64": 34 * 8}

// perfFields are the fields of struct bpf_perf_event_data.
func perfFields(arch string) []Arg {
	base, ok := ptRegsSize[arch]
	if !ok {
		return nil
	}
	u64 := &btf.Int{Name: "unsigned long long", Size: 8}
	return []Arg{
		{Name: "sample_period", Type: u64, Loc: Location{Kind: LocationContext, Offset: base, Size: 8}},
		{Name: "addr", Type: u64, Loc: Location{Kind: LocationContext, Offset: base + 8, Size: 8}},
	}
}

// perf resolves sampling to one site for each CPU, or one for a process.
func (r *resolver) perf(t Perf) error {
	if err := checkPerf(t); err != nil {
		return err
	}
	p := Program{
		Type: ebpf.PerfEvent, AttachType: ebpf.AttachPerfEvent, Context: ContextPerf,
		Fields: perfFields(r.env.Arch()), Method: MethodPerfLink,
	}
	switch {
	case t.Every != 0:
		t.Event = pmc.CPUClock()
	case t.Event.IsZero():
		t.Event = pmc.Cycles()
		if err := r.env.Supports(feature.HardwarePMU); err != nil {
			t.Event = pmc.CPUClock()
			p.Why = "cpu-clock instead of cycles: " + feature.Reason(err)
		}
	case t.Event.Type == pmc.TypeBreakpoint:
		if err := r.env.Supports(feature.Watchpoint); errors.Is(err, errors.ErrUnsupported) {
			return err
		}
	}
	if t.PID != 0 {
		if len(t.CPUs) > 0 {
			return errors.New("pid and cpus exclude each other: a process is followed wherever it runs")
		}
		p.Sites = []Site{{Target: t, PID: t.PID, CPU: -1}}
		r.add(p)
		return nil
	}
	list, err := r.perfCPUs(t)
	if err != nil {
		return err
	}
	for _, c := range list {
		p.Sites = append(p.Sites, Site{Target: t, CPU: c})
	}
	r.add(p)
	return nil
}

func checkPerf(t Perf) error {
	n := 0
	for _, set := range []bool{t.Freq != 0, t.Period != 0, t.Every != 0} {
		if set {
			n++
		}
	}
	switch {
	case n == 0:
		return errors.New("it says neither how often (Freq, Every) nor after how many events (Period) to fire")
	case n > 1:
		return errors.New("only one of Freq, Period and Every may be set")
	case t.Every < 0:
		return errors.New("negative time between firings")
	case t.Every != 0 && !t.Event.IsZero():
		return errors.New("an interval timer has no event")
	case t.Every != 0 && (t.PID != 0 || t.Cgroup != ""):
		return errors.New("an interval timer belongs to no process or cgroup")
	case t.PID < 0:
		return fmt.Errorf("bad pid %d", t.PID)
	case t.PID != 0 && t.Cgroup != "":
		return errors.New("pid and cgroup exclude each other")
	case t.Every == 0 && t.Event.IsZero() && t.Period != 0:
		return errors.New("a period needs an event to count")
	}
	return nil
}

// perfCPUs are the CPUs to open the event on: those online, unless the target
// names some. A timer takes one.
func (r *resolver) perfCPUs(t Perf) ([]int, error) {
	online, err := r.env.OnlineCPUs()
	if err != nil {
		return nil, err
	}
	list := online
	if t.CPUs != nil {
		list = slices.Compact(slices.Sorted(slices.Values(t.CPUs)))
		for _, c := range list {
			if !slices.Contains(online, c) {
				return nil, notexist.Errorf("CPU %d is not online", c)
			}
		}
		if len(list) == 0 {
			return nil, errors.New("no CPU in the list")
		}
	}
	if t.Every != 0 {
		list = list[:1]
	}
	return list, nil
}

// watchpoint resolves a hardware breakpoint.
func (r *resolver) watchpoint(t Watchpoint) error {
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
	p := Program{
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

// watchMode is the access as pmc encodes it.
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

// iter resolves an iterator by the struct that its programs are given.
func (r *resolver) iter(t Iter) error {
	if err := r.env.Supports(feature.Iter); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if t.PID != 0 && !strings.HasPrefix(t.Name, "task") {
		return errors.New("only the task iterators take a pid")
	}
	fields, err := r.iterFields(t.Name)
	if err != nil {
		return err
	}
	r.add(Program{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceIter, AttachTo: t.Name,
		Context: ContextIter, Method: MethodIter, Fields: fields,
		Sites: []Site{{Target: t, PID: t.PID, CPU: -1}},
	})
	return nil
}

// iterFields are the members of an iterator's context.
func (r *resolver) iterFields(name string) ([]Arg, error) {
	spec, err := r.env.BTF()
	if err != nil {
		return nil, err
	}
	var s *btf.Struct
	if err := spec.TypeByName("bpf_iter__"+name, &s); err != nil {
		return nil, notexist.Errorf("no iterator %s%s", name, near.Hint(name, iterNames(spec)))
	}
	var out []Arg
	for _, m := range s.Members {
		out = append(out, iterField(m))
	}
	return out, nil
}

// iterField is a member of an iterator's context: pointers lie in unions that
// keep them 8 bytes wide (__bpf_md_ptr).
func iterField(m btf.Member) Arg {
	a := Arg{Name: m.Name, Type: m.Type, Loc: Location{Kind: LocationContext, Offset: int64(m.Offset.Bytes()), Size: 8}}
	if u, ok := m.Type.(*btf.Union); ok && m.Name == "" && len(u.Members) > 0 {
		a.Name, a.Type = u.Members[0].Name, u.Members[0].Type
	}
	if size, err := btf.Sizeof(a.Type); err == nil {
		a.Loc.Size = size
	}
	return a
}

func iterNames(spec *btf.Spec) []string {
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		if s, ok := t.(*btf.Struct); ok && strings.HasPrefix(s.Name, "bpf_iter__") {
			out = append(out, s.Name[len("bpf_iter__"):])
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (r *resolver) socket(t SocketFilter) error {
	if t.Interface == "" {
		return errors.New("it names no interface")
	}
	r.add(Program{
		Type: ebpf.SocketFilter, Context: ContextSocket, Method: MethodSocket,
		Sites: []Site{{Target: t, CPU: -1}},
	})
	return nil
}

// run resolves begin and end: programs that attaching and closing run once.
func (r *resolver) run(t Target) error {
	p := Program{
		Type: ebpf.Syscall, Flags: flagSleepable, Context: ContextSyscall, Method: MethodRun,
		Sites: []Site{{Target: t, CPU: -1}},
	}
	if err := r.env.Supports(feature.SyscallProg); err != nil {
		if terr := r.env.Supports(feature.TestRunRawTP); terr != nil {
			return terr
		}
		p.Type, p.Flags, p.Context = ebpf.RawTracepoint, 0, ContextRawArgs
		p.why("syscall program", err)
	}
	r.add(p)
	return nil
}

// tracingBPF resolves fentry or fexit on a BPF program's function, whose types
// are in the program's own BTF.
func (r *resolver) tracingBPF(t trampoline) error {
	if !r.env.Live() {
		return errors.New("BPF programs can be looked at on this machine only")
	}
	proto, err := bpfPrototype(t.bpf, t.symbol)
	if err != nil {
		return err
	}
	p := tracingProgram(t, proto)
	p.AttachTarget = t.bpf
	r.add(p)
	return nil
}
