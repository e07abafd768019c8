package probe

import (
	"errors"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/prototype"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// LSM fires at a security hook, and its program may refuse the operation there.
// "lsm:file_open". The kernel must have "bpf" among its security modules (lsm= on its
// command line).
type LSM struct {
	Hook string // without "security_"; no wildcards, but List takes them
}

func (LSM) requires(q *requirer) { q.kernel(feature.LSM, "") }

func (t LSM) list(l *lister) error {
	return listNames[*btf.Func](l, "", hookPrefix, t.Hook, func(name string) Match {
		x := Match{Target: LSM{Hook: name}}
		if l.o.Args {
			if proto, err := prototype.Of(l.env, "", hookPrefix+name); err == nil {
				x.Args, _ = trampArgs(proto.Params)
			}
		}
		return x
	})
}

func (t LSM) word() string { return t.Hook }

// String returns "lsm:HOOK".
func (t LSM) String() string { return "lsm:" + spelling.Quote(t.Hook) }

// resolve resolves a security hook, which is a function called bpf_lsm_HOOK.
func (t LSM) resolve(r *resolver) error {
	if err := r.env.Supports(feature.LSM); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	proto, err := prototype.Of(r.env, "", hookPrefix+t.Hook)
	if err != nil {
		if !errors.Is(err, btf.ErrNotFound) {
			return err
		}
		return notexist.Errorf("no security hook %s%s", t.Hook, near.Hint(t.Hook, hooks(r.env)))
	}
	p := tracingProgram(trampoline{target: t, symbol: t.Hook, at: ebpf.AttachLSMMac}, proto)
	p.Type, p.Returns = ebpf.LSM, false
	r.add(p)
	return nil
}

// hookPrefix precedes the hook's name in the names of the hooks' functions.
const hookPrefix = "bpf_lsm_"

// hooks returns the names of the security hooks, none if there is no BTF.
func hooks(e *Env) []string {
	list, err := prototype.Names[*btf.Func](e, "", hookPrefix)
	if err != nil {
		return nil
	}
	return list
}

var lsmSpelled = spelled{
	words: []string{"lsm"},
	parse: single("lsm:HOOK", func(hook string) Target {
		return LSM{Hook: hook}
	}),
}
