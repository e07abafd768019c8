package feature

import "strconv"

// Cap is a Linux capability number (include/uapi/linux/capability.h).
type Cap uint

// The capabilities that tracing asks for.
const (
	CapDACOverride       Cap = 1
	CapDACReadSearch     Cap = 2
	CapSysPtrace         Cap = 19
	CapSysAdmin          Cap = 21
	CapSysResource       Cap = 24
	CapSyslog            Cap = 34
	CapPerfmon           Cap = 38
	CapBPF               Cap = 39
	CapCheckpointRestore Cap = 40
)

// String is the name that capsh and setcap use, "CAP_BPF".
func (c Cap) String() string {
	switch c {
	case CapDACOverride:
		return "CAP_DAC_OVERRIDE"
	case CapDACReadSearch:
		return "CAP_DAC_READ_SEARCH"
	case CapSysPtrace:
		return "CAP_SYS_PTRACE"
	case CapSysAdmin:
		return "CAP_SYS_ADMIN"
	case CapSysResource:
		return "CAP_SYS_RESOURCE"
	case CapSyslog:
		return "CAP_SYSLOG"
	case CapPerfmon:
		return "CAP_PERFMON"
	case CapBPF:
		return "CAP_BPF"
	case CapCheckpointRestore:
		return "CAP_CHECKPOINT_RESTORE"
	}
	return "capability " + strconv.Itoa(int(c))
}

// MissingCaps lists those of the given capabilities that HasCap denies.
func MissingCaps(cs ...Cap) []Cap {
	var missing []Cap
	for _, c := range cs {
		if !HasCap(c) {
			missing = append(missing, c)
		}
	}
	return missing
}
