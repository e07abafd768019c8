package caps

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/probe/env"
)

// Names maps the names of capabilities to their numbers, from include/uapi/linux/capability.h.
var Names = map[string]uint{
	"CAP_DAC_READ_SEARCH": 2, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_SYS_PTRACE": 19,
	"CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24, "CAP_SYSLOG": 34, "CAP_PERFMON": 38, "CAP_BPF": 39,
}

// Held returns this process's effective capabilities as a bit set. known is false if they
// cannot be read; then no capability is reported as missing.
func Held(e *env.Env) (held uint64, known bool) {
	if !e.Live() {
		return 0, false
	}
	b, err := fs.ReadFile(e.Root(), "proc/thread-self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(v), 16, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// Lacks reports whether this process is known not to hold a capability. In a user namespace
// other than the initial one, the capabilities count only for BPF tokens, so Lacks returns
// true.
func Lacks(e *env.Env, name string) bool {
	held, known := Held(e)
	return known && (held&(1<<Names[name]) == 0 || Namespaced(e))
}

// Namespaced reports whether this process is known to be in a user namespace other than the
// initial one. Only the initial one maps all ids to themselves.
func Namespaced(e *env.Env) bool {
	b, err := fs.ReadFile(e.Root(), "proc/self/uid_map")
	return err == nil && e.Live() &&
		!slices.Equal(strings.Fields(string(b)), []string{"0", "0", "4294967295"})
}

// Paranoid returns kernel.perf_event_paranoid, or 2 if it is not known.
func Paranoid(e *env.Env) int {
	b, err := fs.ReadFile(e.Root(), "proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return 2
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return 2
	}
	return n
}
