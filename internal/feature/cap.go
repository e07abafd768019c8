package feature

import "strconv"

// Cap is a Linux capability number (include/uapi/linux/capability.h).
type Cap uint

// These are the capabilities that tracing needs.
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

// String returns the name that capsh and setcap use, "CAP_BPF".
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

// MissingCaps returns the given capabilities that HasCap reports as missing.
func MissingCaps(cs ...Cap) []Cap {
	var missing []Cap
	for _, c := range cs {
		if !HasCap(c) {
			missing = append(missing, c)
		}
	}
	return missing
}
