package probe

import (
	"fmt"
	"io"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/internal/ctype"
)

// ProgramSpec returns what program i must be loaded with: name, type, attach type, target
// and flags. The caller adds instructions and licence and, if ProgramPlan.AttachTarget is
// set, opens that program. It returns nil for an index that the plan does not have.
func (p *Plan) ProgramSpec(i int) *ebpf.ProgramSpec {
	if i < 0 || i >= len(p.Programs) {
		return nil
	}
	g := &p.Programs[i]
	return &ebpf.ProgramSpec{
		Name: g.Name, Type: g.Type, AttachType: g.AttachType, AttachTo: g.AttachTo, Flags: g.Flags,
	}
}

var methodNames = [...]string{
	MethodNone: "none", MethodPerfLink: "perf link", MethodPerfIoctl: "perf ioctl",
	MethodKprobeMulti: "kprobe.multi", MethodUprobeMulti: "uprobe.multi", MethodTracing: "trampoline",
	MethodRawTracepoint: "raw tracepoint", MethodTracefs: "tracefs", MethodIter: "iterator",
	MethodRun: "run", MethodSocket: "socket", MethodTracingMulti: "tracing.multi",
}

// String returns the method in words: "kprobe.multi".
func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return fmt.Sprintf("Method(%d)", uint8(m))
}

var contextNames = [...]string{
	ContextNone: "none", ContextPtRegs: "pt_regs", ContextPerf: "perf_event_data",
	ContextRecord: "record", ContextRawArgs: "raw args", ContextTramp: "args", ContextIter: "iterator",
	ContextSocket:  "skb",
	ContextSyscall: "own struct",
}

// String returns the context in words: "pt_regs".
func (c Context) String() string {
	if int(c) < len(contextNames) {
		return contextNames[c]
	}
	return fmt.Sprintf("Context(%d)", uint8(c))
}

// String returns the location in words: "reg 5", "ctx+24", "sp+8", "data_loc@8",
// or the reason why there is none.
func (l Location) String() string {
	if l.Reason != "" {
		return "- (" + l.Reason + ")"
	}
	var s string
	switch l.Kind {
	case LocationReg:
		s = fmt.Sprintf("reg %d", l.Reg)
		if l.Offset != 0 {
			s += fmt.Sprintf(" byte %d", l.Offset)
		}
	case LocationSum:
		s = fmt.Sprintf("reg %d %+d", l.Reg, l.Offset)
	case LocationStack:
		s = fmt.Sprintf("sp+%d", l.Offset)
	case LocationContext:
		s = fmt.Sprintf("ctx+%d", l.Offset)
	case LocationDataLoc:
		s = fmt.Sprintf("data_loc@%d", l.Offset)
	case LocationRelLoc:
		s = fmt.Sprintf("rel_loc@%d", l.Offset)
	case LocationUSDT:
		s = l.operand()
	case LocationConst:
		s = fmt.Sprintf("%d", l.Offset)
	case LocationFuncArg:
		s = fmt.Sprintf("func_arg(%d)", l.Offset)
	case LocationFuncRet:
		s = "func_ret"
	default:
		return "-"
	}
	if l.User {
		s += " (user)"
	}
	return s
}

func (l Location) operand() string {
	if l.Operand == nil {
		return "-"
	}
	return l.Operand.String()
}

// String returns the argument as a C declaration with its location:
// "struct file *file @ reg 5".
func (a Arg) String() string {
	return ctype.Declaration(a.Type, a.Name) + " @ " + a.Loc.String()
}

// String returns the whole plan as readable text, the same for equal plans.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan for %s, Linux %s\n", p.Arch, p.Kernel)
	if p.Filter != nil {
		fmt.Fprintf(&b, "filter %s\n", p.Filter)
	}
	for i := range p.Programs {
		p.Programs[i].print(&b)
	}
	for _, m := range p.Missing {
		fmt.Fprintf(&b, "missing %s: %v\n", m.Target, m.Err)
	}
	return b.String()
}

func (p *ProgramPlan) print(w io.Writer) {
	fmt.Fprintf(w, "program %s: group %d, %s", p.Name, p.Group, p.Type)
	if p.AttachType != ebpf.AttachNone {
		fmt.Fprintf(w, "/%s", attachTypeName(p.AttachType))
	}
	if p.AttachTo != "" {
		fmt.Fprintf(w, " on %s", p.AttachTo)
	}
	if p.AttachTarget != 0 {
		fmt.Fprintf(w, " of program %d", p.AttachTarget)
	}
	if p.Sleepable() {
		fmt.Fprint(w, ", sleepable")
	}
	fmt.Fprintf(w, ", context %s, by %s", p.Context, p.Method)
	if p.Returns {
		fmt.Fprint(w, ", at return")
	}
	fmt.Fprintln(w)
	if p.FallbackReason != "" {
		fmt.Fprintf(w, "  because %s\n", p.FallbackReason)
	}
	if p.Go != nil && p.Go.GoidOffset == 0 {
		fmt.Fprintf(w, "  of Go %q: where goroutines have their ids is not known\n", p.Go.Version)
	}
	for i, a := range p.Args {
		fmt.Fprintf(w, "  arg%d %s\n", i, a)
	}
	for _, a := range p.Fields {
		fmt.Fprintf(w, "  field %s\n", a)
	}
	if p.Ret != nil {
		fmt.Fprintf(w, "  returns %s\n", *p.Ret)
	}
	for i, spec := range p.Specs {
		for j, a := range spec {
			fmt.Fprintf(w, "  spec %d arg%d %s\n", i, j, a)
		}
	}
	for i := range p.Sites {
		p.Sites[i].print(w)
	}
}

func (s *Site) print(w io.Writer) {
	fmt.Fprintf(w, "  site %d %s", s.Cookie.Site(), s.Target)
	if s.Path != "" {
		fmt.Fprintf(w, " %s", s.Path)
	}
	if s.Address != 0 {
		fmt.Fprintf(w, " at %#x", s.Address)
	}
	if s.Offset != 0 {
		fmt.Fprintf(w, " +%#x", s.Offset)
	}
	if s.Path != "" && !s.Boundary {
		fmt.Fprint(w, " unsafe")
	}
	if s.RefCtrOffset != 0 {
		fmt.Fprintf(w, " semaphore +%#x", s.RefCtrOffset)
	}
	if s.Cookie.Spec() != 0 {
		fmt.Fprintf(w, " spec %d", s.Cookie.Spec())
	}
	if s.CPU >= 0 {
		fmt.Fprintf(w, " cpu %d", s.CPU)
	}
	if s.PID != 0 {
		fmt.Fprintf(w, " pid %d", s.PID)
	}
	fmt.Fprintln(w)
}
