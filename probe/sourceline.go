package probe

import (
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/usercode"
)

// userLine is a probe at a source line: at the first instruction of every
// place that the compiler made of it (inlining makes several).
func (r *resolver) userLine(f *elffile.File, name, shown string, u userProbe, goProgram bool) error {
	addrs, err := usercode.LineAddresses(r.ctx, f, name, u.file, u.line, u.column)
	if err != nil {
		return err
	}
	p := r.userProgram(f, goProgram)
	p.Args = withReason(p.Args, "arguments are known at a function's entry only")
	if goProgram {
		p.Go = r.goTarget(f, name)
	}
	var bad error
	for _, a := range addrs {
		off, ok := f.Offset(a)
		if !ok {
			continue
		}
		site := Site{Target: u.renamed(shown, ""), Offset: off, Address: a, Path: name, PID: u.pid, CPU: -1}
		if err := r.begins(&site, r.code.Check(a)); err != nil {
			bad = err // of code that the linker has dropped, its lines remain
			continue
		}
		p.Sites = append(p.Sites, site)
	}
	if len(p.Sites) == 0 && bad != nil {
		return bad
	}
	if len(p.Sites) == 0 {
		return notexist.Errorf("the code of %s:%d lies in no loaded segment", u.file, u.line)
	}
	r.add(p)
	return nil
}
