package probe

import (
	"errors"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// LSM fires at a security hook, and may refuse what is asked there.
// "lsm:file_open". The kernel needs "bpf" among its security modules (lsm= on
// its command line).
type LSM struct {
	Hook string // without "security_"; no wildcards, but List takes them
}

func (LSM) requires(q *requirer) { q.kernel(feature.LSM, "") }

func (t LSM) list(l *lister) error {
	return l.named(t.Hook, "lsm", func(n string) Target { return LSM{Hook: n} })
}

func (t LSM) word() string { return t.Hook }

// String is "lsm:HOOK".
func (t LSM) String() string { return "lsm:" + spelling.Quote(t.Hook) }

// resolve resolves a security hook: a function called bpf_lsm_HOOK.
func (t LSM) resolve(r *resolver) error {
	if err := r.env.Supports(feature.LSM); errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	proto, err := r.prototype("", "bpf_lsm_"+t.Hook)
	if err != nil {
		if !errors.Is(err, btf.ErrNotFound) {
			return err
		}
		return notexist.Errorf("no security hook %s%s", t.Hook, near.Hint(t.Hook, r.hooks()))
	}
	p := tracingProgram(trampoline{target: t, symbol: t.Hook, at: ebpf.AttachLSMMac}, proto)
	p.Type, p.Returns = ebpf.LSM, false
	r.add(p)
	return nil
}

func (r *resolver) hooks() []string {
	spec, err := r.env.BTF()
	if err != nil {
		return nil
	}
	var out []string
	for t, err := range spec.All() {
		if err != nil {
			break
		}
		if fn, ok := t.(*btf.Func); ok && strings.HasPrefix(fn.Name, "bpf_lsm_") {
			out = append(out, fn.Name[len("bpf_lsm_"):])
		}
	}
	return out
}
