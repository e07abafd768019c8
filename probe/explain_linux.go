package probe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

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
	case errors.Is(err, syscall.EACCES) && caps.Paranoid(a.env) > 2 &&
		caps.Lacks(a.env, "CAP_SYS_ADMIN"):
		return fmt.Errorf("kernel.perf_event_paranoid is %d, where this kernel gives perf events to CAP_SYS_ADMIN only: lower it to 2, or hold that: %w",
			caps.Paranoid(a.env), err)
	}
	return ev.Explain(err)
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
