package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe/internal/typejson"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/usdt"
)

// planFormat is the version of a plan's JSON. Released versions can be read by all later
// versions of this package.
const planFormat = 1

// planJSON is the recorded form of a plan.
type planJSON struct {
	Format   int              `json:"format"`
	Arch     string           `json:"arch"`
	Kernel   string           `json:"kernel"`
	Types    []typejson.Type  `json:"types,omitempty"`
	Programs []programJSON    `json:"programs"`
	Missing  []missingJSON    `json:"missing,omitempty"`
	Files    userfile.FileIDs `json:"files,omitempty"`
	Filter   *TaskFilter      `json:"filter,omitempty"`
}

type missingJSON struct {
	Target string `json:"target"`
	Error  string `json:"error"`
	Kind   string `json:"kind,omitempty"`
}

type programJSON struct {
	Name         string      `json:"name"`
	Group        int         `json:"group"`
	Type         string      `json:"type"`
	AttachType   string      `json:"attach_type,omitempty"`
	AttachTo     string      `json:"attach_to,omitempty"`
	Flags        uint32      `json:"flags,omitempty"`
	AttachTarget uint32      `json:"attach_target,omitempty"`
	Context      string      `json:"context"`
	Args         []argJSON   `json:"args,omitempty"`
	Fields       []argJSON   `json:"fields,omitempty"`
	Ret          *argJSON    `json:"ret,omitempty"`
	Specs        [][]argJSON `json:"specs,omitempty"`
	UserRegs     bool        `json:"user_regs,omitempty"`
	Returns      bool        `json:"returns,omitempty"`
	Go           *GoTarget   `json:"go,omitempty"`
	Method       string      `json:"method"`
	Sites        []siteJSON  `json:"sites"`
	Why          string      `json:"why,omitempty"`
}

type siteJSON struct {
	Target       string `json:"target"`
	Cookie       uint64 `json:"cookie"`
	Symbol       string `json:"symbol,omitempty"`
	Module       string `json:"module,omitempty"`
	Address      uint64 `json:"address,omitempty"`
	Offset       uint64 `json:"offset,omitempty"`
	Boundary     bool   `json:"boundary,omitempty"`
	Path         string `json:"path,omitempty"`
	RefCtrOffset uint64 `json:"ref_ctr_offset,omitempty"`
	PID          int    `json:"pid,omitempty"`
	CPU          int    `json:"cpu"`
}

type argJSON struct {
	Name string `json:"name"`
	// Type is an index into the plan's types, plus one; 0 is none.
	Type    int       `json:"type,omitempty"`
	Kind    string    `json:"kind"`
	Reg     int       `json:"reg,omitempty"`
	Offset  int64     `json:"offset,omitempty"`
	Size    int       `json:"size,omitempty"`
	Operand *usdt.Arg `json:"operand,omitempty"`
	User    bool      `json:"user,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

var locationNames = []string{
	LocationNone: "none", LocationReg: "reg", LocationStack: "stack", LocationContext: "context",
	LocationDataLoc: "data_loc", LocationRelLoc: "rel_loc", LocationUSDT: "usdt",
	LocationConst: "const", LocationFuncArg: "func_arg", LocationFuncRet: "func_ret",
	LocationSum: "sum",
}

// MarshalJSON records the plan, except BTF, Cache and Symbols, which belong to the
// machine. Equal plans have equal bytes. Kernel types are recorded by name and size if
// p.BTF has them, other types in full.
func (p *Plan) MarshalJSON() ([]byte, error) {
	types := typejson.Encoder{Kernel: p.BTF}
	out := planJSON{
		Format: planFormat, Arch: p.Arch, Kernel: p.Kernel, Programs: []programJSON{},
		Files: p.Files, Filter: p.Filter,
	}
	for i := range p.Programs {
		out.Programs = append(out.Programs, encodeProgram(&p.Programs[i], &types))
	}
	for _, m := range p.Missing {
		out.Missing = append(out.Missing, missingJSON{m.Target.String(), m.Err.Error(), errorKind(m.Err)})
	}
	out.Types = types.List
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote, on any machine. If p.BTF is set before, the
// kernel's types are looked up in it, and it is an error if it has another type by that
// name. Otherwise they have a name and a size only.
func (p *Plan) UnmarshalJSON(b []byte) error {
	var in planJSON
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	if in.Format != planFormat {
		return fmt.Errorf("read plan: format %d: this package knows %d", in.Format, planFormat)
	}
	types, err := typejson.Decode(in.Types, p.BTF)
	if err != nil {
		return fmt.Errorf("read plan: %w", err)
	}
	out := Plan{
		Arch: in.Arch, Kernel: in.Kernel, BTF: p.BTF, Symbols: p.Symbols, Files: in.Files,
		Filter: in.Filter,
	}
	for i := range in.Programs {
		g, err := decodeProgram(&in.Programs[i], types)
		if err != nil {
			return fmt.Errorf("read plan: program %d: %w", i, err)
		}
		out.Programs = append(out.Programs, g)
	}
	for _, m := range in.Missing {
		t, err := ParseTarget(m.Target)
		if err != nil {
			return fmt.Errorf("read plan: %w", err)
		}
		out.Missing = append(out.Missing, Missing{t, recordedError(m)})
	}
	*p = out
	return nil
}

// errorKinds are the errors that callers compare with.
var errorKinds = []struct {
	name string
	err  error
}{
	{"not exist", fs.ErrNotExist},
	{"unsupported", errors.ErrUnsupported},
	{"permission", fs.ErrPermission},
}

func errorKind(err error) string {
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return ""
}

// replayed is an error that was recorded: its text, and what it matches.
type replayed struct {
	text string
	kind error
}

func (e *replayed) Error() string { return e.text }
func (e *replayed) Unwrap() error { return e.kind }

func recordedError(m missingJSON) error {
	e := &replayed{text: m.Error}
	for _, k := range errorKinds {
		if k.name == m.Kind {
			e.kind = k.err
		}
	}
	return e
}

func encodeProgram(g *ProgramPlan, types *typejson.Encoder) programJSON {
	out := programJSON{
		Name: g.Name, Group: g.Group, Type: g.Type.String(), AttachTo: g.AttachTo, Flags: g.Flags,
		AttachTarget: g.AttachTarget, Context: g.Context.String(), UserRegs: g.UserRegs,
		Returns: g.Returns, Go: g.Go, Method: g.Method.String(), Sites: []siteJSON{},
		Why: g.FallbackReason, Args: encodeArgs(g.Args, types), Fields: encodeArgs(g.Fields, types),
	}
	if g.AttachType != ebpf.AttachNone {
		out.AttachType = g.AttachType.String()
	}
	if g.Ret != nil {
		out.Ret = &encodeArgs([]Arg{*g.Ret}, types)[0]
	}
	for _, s := range g.Specs {
		out.Specs = append(out.Specs, encodeArgs(s, types))
	}
	for i := range g.Sites {
		s := &g.Sites[i]
		out.Sites = append(out.Sites, siteJSON{
			s.Target.String(), uint64(s.Cookie), s.Symbol, s.Module, s.Address, s.Offset, s.Boundary, s.Path,
			s.RefCtrOffset, s.PID, s.CPU,
		})
	}
	return out
}

func encodeArgs(args []Arg, types *typejson.Encoder) []argJSON {
	var out []argJSON
	for _, a := range args {
		l := a.Loc
		out = append(out, argJSON{
			Name: a.Name, Type: types.Index(a.Type), Kind: nameOf(locationNames, int(l.Kind)),
			Reg: l.Reg, Offset: l.Offset, Size: l.Size, Operand: l.Operand, User: l.User, Reason: l.Reason,
		})
	}
	return out
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprint(i)
}

// named finds the value whose String is s among the first n.
func named[T interface {
	~uint8 | ~uint32
	String() string
}](what, s string, n T) (T, error) {
	for v := T(0); v < n; v++ {
		if v.String() == s {
			return v, nil
		}
	}
	return 0, fmt.Errorf("no %s is called %q", what, s)
}

func decodeProgram(in *programJSON, types []typejson.Decoded) (ProgramPlan, error) {
	g := ProgramPlan{
		Name: in.Name, Group: in.Group, AttachTo: in.AttachTo, Flags: in.Flags,
		AttachTarget: in.AttachTarget, UserRegs: in.UserRegs, Returns: in.Returns, Go: in.Go,
		FallbackReason: in.Why,
	}
	var errs [8]error
	g.Type, errs[0] = named("program type", in.Type, ebpf.ProgramType(64))
	if in.AttachType != "" {
		g.AttachType, errs[1] = named("attach type", in.AttachType, ebpf.AttachType(128))
	}
	g.Context, errs[2] = named("context", in.Context, Context(len(contextNames)))
	g.Method, errs[3] = named("method", in.Method, Method(len(methodNames)))
	g.Args, errs[4] = decodeArgs(in.Args, types)
	g.Fields, errs[5] = decodeArgs(in.Fields, types)
	if in.Ret != nil {
		ret, err := decodeArgs([]argJSON{*in.Ret}, types)
		if err != nil {
			return g, err
		}
		g.Ret = &ret[0]
	}
	for _, s := range in.Specs {
		args, err := decodeArgs(s, types)
		if err != nil {
			return g, err
		}
		g.Specs = append(g.Specs, args)
	}
	g.Sites, errs[6] = decodeSites(in.Sites)
	return g, errors.Join(errs[:]...)
}

func decodeSites(list []siteJSON) ([]Site, error) {
	var out []Site
	for i := range list {
		s := &list[i]
		t, err := ParseTarget(s.Target)
		if err != nil {
			return nil, fmt.Errorf("site %d: %w", i, err)
		}
		out = append(out, Site{
			t, Cookie(s.Cookie), s.Symbol, s.Module, s.Address, s.Offset, s.Boundary, s.Path, s.RefCtrOffset,
			s.PID, s.CPU,
		})
	}
	return out, nil
}

func decodeArgs(list []argJSON, types []typejson.Decoded) ([]Arg, error) {
	var out []Arg
	for i := range list {
		in := &list[i]
		if in.Type < 0 || in.Type > len(types) {
			return nil, fmt.Errorf("argument %s has type %d of %d", in.Name, in.Type, len(types))
		}
		a := Arg{Name: in.Name, Loc: Location{
			Reg: in.Reg, Offset: in.Offset, Size: in.Size, Operand: in.Operand, User: in.User,
			Reason: in.Reason,
		}}
		if in.Type > 0 {
			a.Type = types[in.Type-1].T
		}
		kind := -1
		for k, name := range locationNames {
			if name == in.Kind {
				kind = k
			}
		}
		if kind < 0 {
			return nil, fmt.Errorf("argument %s: no location is called %q", in.Name, in.Kind)
		}
		a.Loc.Kind = LocationKind(kind)
		out = append(out, a)
	}
	return out, nil
}

// Diff returns the differences between two plans: the lines of their printed form that
// the other lacks, "- " before those of p, "+ " before those of q. It is empty for plans
// that attach the same programs at the same sites with the same arguments. The kernel's
// release is not compared.
func (p *Plan) Diff(q *Plan) []string {
	a, b := planLines(p), planLines(q)
	count := map[string]int{}
	for _, l := range b {
		count[l]++
	}
	var out []string
	for _, l := range a {
		if count[l]--; count[l] < 0 {
			out = append(out, "- "+strings.TrimSpace(l))
		}
	}
	count = map[string]int{}
	for _, l := range a {
		count[l]++
	}
	for _, l := range b {
		if count[l]--; count[l] < 0 {
			out = append(out, "+ "+strings.TrimSpace(l))
		}
	}
	return out
}

// planLines returns the lines of a plan's filter and programs.
func planLines(p *Plan) []string {
	var b strings.Builder
	if p.Filter != nil {
		fmt.Fprintf(&b, "filter %s\n", p.Filter)
	}
	for i := range p.Programs {
		p.Programs[i].print(&b)
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}
