package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/borescope/borescope/internal/feature"
	"github.com/borescope/borescope/internal/kallsyms"
	"github.com/borescope/borescope/internal/kernel"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/internal/caps"
	"github.com/borescope/borescope/probe/internal/perfevent"
	"github.com/borescope/borescope/probe/internal/spelling"
)

// explainOpen says why perf_event_open refused an event.
func (a *attacher) explainOpen(ev *perfevent.Event, err error) error {
	if ev.Explain == nil {
		return ev.Refused(err)
	}
	switch {
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("no process %d: %w", ev.PID, err)
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("out of file descriptors: raise RLIMIT_NOFILE (ulimit -n): %w", err)
	case errors.Is(err, syscall.EACCES) && caps.Paranoid(a.env) > 2 && caps.Lacks(a.env, "CAP_SYS_ADMIN"):
		return fmt.Errorf("kernel.perf_event_paranoid is %d, where this kernel gives perf events to CAP_SYS_ADMIN only: lower it to 2, or hold that: %w",
			caps.Paranoid(a.env), err)
	}
	return ev.Explain(err)
}

// explainKprobe: what register_kprobe and its callers mean by their errors
// (kernel/kprobes.c, kernel/trace/trace_kprobe.c).
func (a *attacher) explainKprobe(s *Site, err error) error {
	if why := feature.Explain(feature.Kprobe, err); why != err {
		return why
	}
	k, kerr := a.env.Functions()
	known := kerr == nil && !k.Hidden
	switch {
	case known && s.Symbol != "" && len(k.Lookup(s.Module, s.Symbol)) == 0:
		return k.Absent(s.Module, s.Symbol)
	case errors.Is(err, syscall.EADDRNOTAVAIL) && known:
		return ambiguous(s.Symbol, k.Lookup(s.Module, s.Symbol))
	case errors.Is(err, syscall.EILSEQ):
		return fmt.Errorf("offset %d is not where an instruction begins: %w", s.Offset, err)
	case kallsyms.Blacklist(a.env.Root())[s.Symbol]:
		return fmt.Errorf("%s is on the kprobe blacklist: the kernel itself needs it to handle probes: %w", s.Symbol, err)
	case errors.Is(err, syscall.EINVAL) && s.Offset != 0:
		return fmt.Errorf("offset %d into %s cannot be probed: outside the function, or within an instruction that ftrace patches: %w",
			s.Offset, s.Symbol, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("the kernel does not let %s be probed: it is blacklisted (notrace, noinstr, or in an excluded section): %w",
			nameOr(s), err)
	case errors.Is(err, syscall.ENOENT):
		return notexist.Errorf("no kernel function %s", s.Symbol)
	}
	return err
}

func nameOr(s *Site) string {
	if s.Symbol != "" {
		return s.Symbol
	}
	return fmt.Sprintf("%#x", s.Address)
}

// explainUprobe: what create_local_trace_uprobe and uprobe_register mean by
// theirs (kernel/trace/trace_uprobe.c, kernel/events/uprobes.c).
func (a *attacher) explainUprobe(s *Site, err error) error {
	if why := feature.Explain(feature.Uprobe, err); why != err {
		return why
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return notexist.Errorf("no file %s", s.Path)
	case errors.Is(err, kernel.ENOTSUPP), errors.Is(err, syscall.EOPNOTSUPP):
		return fmt.Errorf("the instruction at file offset %#x cannot be single-stepped out of line: probe another: %w", s.Offset, err)
	case errors.Is(err, syscall.EIO):
		return fmt.Errorf("the file system of %s gives the kernel no pages to probe: copy the file to a disk or tmpfs: %w", s.Path, err)
	case errors.Is(err, syscall.EINVAL):
		return fmt.Errorf("file offset %#x of %s cannot be probed: not in the file, or no regular file: %w", s.Offset, s.Path, err)
	}
	return err
}

func readNumber(name string) uint64 {
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	n, err := spelling.ParseNumber(strings.TrimSpace(string(b)), 64)
	if err != nil {
		return 0
	}
	return n
}
