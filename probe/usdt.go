package probe

import (
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/glob"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
	"github.com/borescope/borescope/usdt"
)

// USDT fires at a user statically defined tracepoint, at all of its sites.
// "usdt:/usr/bin/postgres:postgresql:query__start", "usdt:/path:name".
type USDT struct {
	Path     string // as a Uprobe's
	Provider string // "" is any; may hold wildcards
	Name     string // may hold wildcards
	PID      int    // restricts the probe to one process; 0 is all
}

func (t USDT) requires(q *requirer) { q.user(t.PID) }

func (t USDT) list(l *lister) error {
	paths, err := t.paths(l.r)
	if err != nil {
		return err
	}
	for _, p := range paths {
		err := l.usdtFile(t, p)
		if err != nil && (len(paths) == 1 || errors.Is(err, errStop)) {
			return err
		}
	}
	return nil
}

func (t USDT) word() string { return t.Name }

func (USDT) event(a *attacher, g *ProgramPlan, s *Site) (*perfevent.Event, error) {
	return a.uprobeEvent(g, s)
}

func parseUSDT(s *spelling.Scanned) (Target, error) {
	const want = "usdt:PATH:[PROVIDER:]NAME"
	if err := s.UserParts(want); err != nil {
		return nil, err
	}
	if len(s.Parts) > 3 {
		return nil, s.Errorf(s.Parts[3].Off-1,
			"too many parts: want %s; a part with a colon is written in quotes", want)
	}
	for _, p := range s.Parts {
		if p.Suffix != "" {
			return nil, s.Errorf(p.Off, "nothing may follow a closing quote here: want %s", want)
		}
	}
	u := USDT{Path: s.Parts[0].Text, Name: s.Parts[len(s.Parts)-1].Text}
	if len(s.Parts) == 3 {
		u.Provider = s.Parts[1].Text
	}
	return u, nil
}

// String returns "usdt:PATH:PROVIDER:NAME" or "usdt:PATH:NAME", with " pid=N".
func (t USDT) String() string {
	s := "usdt:" + spelling.Quote(t.Path) + ":"
	if t.Provider != "" {
		s += spelling.Quote(t.Provider) + ":"
	}
	return s + spelling.Quote(t.Name) + pid(t.PID)
}

// usdtSite is a site that a target stands for.
type usdtSite struct {
	usdt.Site
	path, shown string
	unsafe      error // why it is not known that an instruction begins there
}

// resolve resolves a probe to all of its sites: one program for each number of arguments,
// with the distinct argument sets as its Specs, distinguished by cookie. Without cookies
// in the kernel it is one program for each distinct set.
func (t USDT) resolve(r *resolver) error {
	if t.Name == "" {
		return errors.New("it names no probe")
	}
	if err := r.env.Supports(feature.Uprobe); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	sites, err := t.sites(r)
	if err != nil {
		return err
	}
	var bad error
	good := slices.DeleteFunc(sites, func(s usdtSite) bool {
		var wrong *usdt.AddressError
		switch {
		case errors.As(s.Err, &wrong):
			bad = s.Err
			return true
		case s.unsafe != nil && !r.o.Unsafe:
			bad = s.unsafe
			return true
		}
		return false
	})
	if len(good) == 0 {
		return bad
	}
	for _, p := range t.programs(r, good) {
		r.add(p)
	}
	return nil
}

// sites finds the matching sites in every file that the path stands for.
func (t USDT) sites(r *resolver) ([]usdtSite, error) {
	paths, err := t.paths(r)
	if err != nil {
		return nil, err
	}
	provider, name := glob.Compile(t.Provider), glob.Compile(t.Name)
	var out []usdtSite
	var known []string
	var first error
	for _, p := range paths {
		shown := p
		if len(paths) == 1 {
			shown = t.Path
		}
		sites, err := usdtFile(r.env, r.sources(), p)
		if err != nil && len(sites) == 0 && first == nil {
			first = fmt.Errorf("%s: %w", p, err)
		}
		n := len(out)
		for _, s := range sites {
			if (t.Provider == "" || provider.Match(s.Provider)) && name.Match(s.Name) {
				out = append(out, usdtSite{s, p, shown, nil})
			} else {
				known = append(known, s.Name)
			}
		}
		if err := r.take(len(out) - n); err != nil {
			return nil, err
		}
		if err := r.checkUSDT(p, out[n:]); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	if first != nil {
		return nil, first
	}
	return nil, t.absent(r, paths, known)
}

// checkUSDT checks for the sites of a file that an instruction begins there.
func (r *resolver) checkUSDT(path string, sites []usdtSite) error {
	if len(sites) == 0 {
		return nil
	}
	return userfile.WithELF(r.env, r.sources(), path, func(f *elffile.File) error {
		b := &usercode.Boundaries{Ctx: r.ctx, F: f}
		byPC := make([]*usdtSite, len(sites))
		for i := range sites {
			byPC[i] = &sites[i]
		}
		slices.SortFunc(byPC, func(x, y *usdtSite) int { return cmp.Compare(x.PC, y.PC) })
		for _, s := range byPC {
			s.unsafe = b.Check(s.PC)
		}
		return nil
	})
}

func (t USDT) absent(r *resolver, paths, known []string) error {
	what := t.Name
	if t.Provider != "" {
		what = t.Provider + ":" + t.Name
	}
	where := paths[0]
	if len(paths) > 1 {
		where = fmt.Sprintf("%d files", len(paths))
	}
	if len(known) == 0 {
		return notexist.Errorf("no USDT probes in %s: it was built without sys/sdt.h, or they are in a library that it loads", where)
	}
	return notexist.Errorf("no USDT probe %s in %s%s", what, where, near.Hint(t.Name, known))
}

// paths returns the files to look into: those of the path or, without one, all that the
// process has mapped executable.
func (t USDT) paths(r *resolver) ([]string, error) {
	paths, err := userfile.Paths(r.env, t.Path, t.PID)
	if err != nil || t.Path != "" {
		return paths, err
	}
	if mapped, err := userfile.MappedBy(r.env, t.PID, "*"); err == nil {
		paths = mapped
	}
	return paths, nil
}

// maxSpecs is how many argument sets a cookie can distinguish.
const maxSpecs = 1 << 16

// programs groups sites into programs.
func (t USDT) programs(r *resolver, sites []usdtSite) []ProgramPlan {
	cookies := r.env.Supports(feature.AttachCookie)
	// place is where an argument set is. Sets of equal text may differ, because symbols in
	// them depend on the file.
	type place struct {
		args          []usdt.Arg
		program, spec int
	}
	var out []ProgramPlan
	places := map[uint64][]place{} // by hash
	open := map[int]int{}          // the program that takes the next set of so many arguments
	var hash maphash.Hash
	for _, s := range sites {
		hash.Reset()
		for i := range s.Args {
			maphash.WriteComparable(&hash, s.Args[i])
		}
		sum := hash.Sum64()
		k := slices.IndexFunc(places[sum], func(p place) bool { return slices.Equal(p.args, s.Args) })
		if k < 0 {
			k = len(places[sum])
			i, have := open[len(s.Args)]
			if !have || cookies != nil || len(out[i].Specs) == maxSpecs {
				i = len(out)
				open[len(s.Args)] = i
				out = append(out, r.usdtProgram())
				if cookies != nil {
					out[i].why("one program for each argument set", cookies)
				}
			}
			places[sum] = append(places[sum], place{s.Args, i, len(out[i].Specs)})
			out[i].Specs = append(out[i].Specs, usdtArgs(s.Args, s.Err))
			out[i].Args = out[i].Specs[0]
		}
		target := t
		target.Path, target.Provider, target.Name = s.shown, s.Provider, s.Name
		at := places[sum][k]
		p := &out[at.program]
		p.Sites = append(p.Sites, Site{
			Target: target, Cookie: MakeCookie(0, at.spec, 0), Symbol: s.Name, Address: s.PC,
			Offset: s.Offset, Boundary: s.unsafe == nil, Path: s.path, RefCtrOffset: s.SemaphoreOffset,
			PID: t.PID, CPU: -1,
		})
	}
	return out
}

func (r *resolver) usdtProgram() ProgramPlan {
	p := ProgramPlan{Type: ebpf.Kprobe, Context: ContextPtRegs, Method: MethodPerfLink, UserRegs: true}
	if r.o.Sleepable {
		p.Flags = flagSleepable
	}
	return p
}

// usdtArgs returns the typed arguments of one site.
func usdtArgs(args []usdt.Arg, bad error) []Arg {
	out := make([]Arg, 0, len(args)+1)
	for i := range args {
		a := args[i]
		arg := Arg{
			Name: fmt.Sprintf("arg%d", i), Type: usdtType(&a),
			Loc: Location{Kind: LocationUSDT, Operand: &a, Size: a.Size, User: true},
		}
		if a.Reason != usdt.ReasonNone {
			arg.Loc.Reason = a.Reason.String()
		}
		out = append(out, arg)
	}
	var syntax *usdt.SyntaxError
	if errors.As(bad, &syntax) {
		// The arguments from the bad one on are lost, those before are not.
		out = append(out, Arg{
			Name: fmt.Sprintf("arg%d", len(args)),
			Loc:  Location{Reason: syntax.Error()},
		})
	}
	return out
}

// usdtType returns an integer or floating type of the argument's size, named as in
// stdint.h.
func usdtType(a *usdt.Arg) btf.Type {
	if a.Float {
		name := "double"
		if a.Size == 4 {
			name = "float"
		}
		return &btf.Float{Name: name, Size: uint32(a.Size)}
	}
	switch a.Size {
	case 1, 2, 4, 8:
	default:
		return nil
	}
	if a.Signed {
		return &btf.Int{
			Name: fmt.Sprintf("int%d_t", a.Size*8), Size: uint32(a.Size),
			Encoding: btf.Signed,
		}
	}
	return &btf.Int{Name: fmt.Sprintf("uint%d_t", a.Size*8), Size: uint32(a.Size)}
}

// usdtFile reads the sites of a file, live or recorded.
func usdtFile(e *Env, from userfile.Sources, path string) ([]usdt.Site, error) {
	var f *usdt.File
	var err error
	if _, _, zipped := userfile.CutZip(e, path); e.Live() && !zipped {
		file, oerr := userfile.OpenLive(e, from, path)
		if oerr != nil {
			return nil, oerr
		}
		defer file.Close()
		f, err = usdt.NewFile(file)
	} else {
		r, _, c, oerr := userfile.OpenAt(e, from, path)
		if oerr != nil {
			return nil, oerr
		}
		defer c.Close()
		f, err = usdt.NewFile(r)
	}
	if err != nil {
		return nil, userfile.NotELF(path, err)
	}
	defer f.Close()
	return f.Sites()
}

var usdtSpelled = spelled{
	words: []string{"usdt", "U"}, parse: parseUSDT,
	pattern: func(l *lister, rest string) (string, bool, error) {
		if rest == "*" || rest == "" {
			return "", true, l.mappedUSDT()
		}
		return allOfFile(l, rest)
	},
}

func (t USDT) withPID(pid int) Target {
	t.PID = pid
	return t
}

func (l *lister) usdtFile(t USDT, path string) error {
	sites, err := usdtFile(l.env, userfile.Sources{}, path)
	provider, name := glob.Compile(t.Provider), glob.Compile(t.Name)
	for _, p := range usdt.Merge(sites) {
		if t.Provider != "" && !provider.Match(p.Provider) || !name.Match(p.Name) {
			continue
		}
		x := Match{Target: USDT{Path: userfile.Spelled(t.Path, path, t.PID), Provider: p.Provider, Name: p.Name, PID: t.PID}}
		if l.o.Args {
			x.Args = usdtArgs(p.Sites[0].Args, p.Sites[0].Err)
		}
		if err := l.putIn(t.PID, x); err != nil {
			return err
		}
	}
	return err
}

// mappedUSDT lists the probes of the files that processes have mapped
// executable, each file once, by the path of the first process that has it.
func (l *lister) mappedUSDT() error {
	return userfile.Mapped(l.env, func(path string) error {
		if err := l.usdtFile(USDT{Name: "*"}, path); errors.Is(err, errStop) {
			return err
		}
		return nil
	})
}
