package tool

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/internal/caps"
)

// enter lets the program run, and has it wait at its entry point for the end of f. The thread that calls
// it traces the program until then (ptrace(2)), and has to be the same for all of it. If the program cannot
// be traced or has no entry point that is known, f is not called.
func (c *Command) enter(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p := traced(c.PID)
	// Without the capability a set-user-ID program would lose its rights by being traced.
	if caps.Lacks(probe.NewEnv(nil), "CAP_SYS_PTRACE") || p.seize() != nil {
		_ = c.Go() // it may be gone
		return
	}
	if c.Go() != nil || !p.until(func(st syscall.WaitStatus) bool { return st.TrapCause() == syscall.PTRACE_EVENT_EXEC }) {
		return
	}
	// Signals that come while it does not run are delivered when it goes on.
	if p.toEntry() == nil {
		f()
	}
	_ = syscall.PtraceDetach(int(p)) // it may be gone
}

// traced is a process that this thread traces.
type traced int

// seize begins to trace the process, which goes on running until it executes a program.
func (p traced) seize() error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p), 0, unix.PTRACE_O_TRACEEXEC|unix.PTRACE_O_EXITKILL, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// until has the process go on with its signals until it stops for what is asked for. It returns false if
// the process has ended, of which its parent is told by Wait.
func (p traced) until(is func(syscall.WaitStatus) bool) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, int(p), &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		const exited, dumped = 1, 3 // CLD_EXITED, CLD_DUMPED
		if err != nil || info.Code >= exited && info.Code <= dumped {
			return false
		}
		var st syscall.WaitStatus
		if _, err := syscall.Wait4(int(p), &st, unix.WALL, nil); err != nil || !st.Stopped() {
			return false
		}
		if is(st) {
			return true
		}
		signal := int(st.StopSignal())
		if st>>16 != 0 { // an event, and no signal
			signal = 0
		}
		if syscall.PtraceCont(int(p), signal) != nil {
			return false
		}
	}
}

// breakpoints are the instructions that stop a program, and how far its instruction counter is behind
// them then.
var breakpoints = map[string]struct {
	code   []byte
	behind uint64
}{
	"amd64": {[]byte{0xcc}, 1},
	"arm64": {[]byte{0, 0, 0x20, 0xd4}, 0}, // brk #0
}

// toEntry has a process that has just executed a program run to that's entry point, when the dynamic
// loader has mapped its libraries. The breakpoint is in the process's own memory.
func (p traced) toEntry() error {
	at, err := p.entry()
	if err != nil {
		return err
	}
	trap, ok := breakpoints[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no breakpoints on %s", runtime.GOARCH)
	}
	was := make([]byte, len(trap.code))
	if _, err := syscall.PtracePeekText(int(p), uintptr(at), was); err != nil {
		return err
	}
	if _, err := syscall.PtracePokeText(int(p), uintptr(at), trap.code); err != nil {
		return err
	}
	if err := syscall.PtraceCont(int(p), 0); err != nil {
		return err
	}
	var regs syscall.PtraceRegs
	if !p.until(func(st syscall.WaitStatus) bool {
		return st.StopSignal() == syscall.SIGTRAP && st>>16 == 0 &&
			syscall.PtraceGetRegs(int(p), &regs) == nil && regs.PC() == at+trap.behind
	}) {
		return os.ErrProcessDone
	}
	if _, err := syscall.PtracePokeText(int(p), uintptr(at), was); err != nil {
		return err
	}
	regs.SetPC(at)
	return syscall.PtraceSetRegs(int(p), &regs)
}

// entry returns the address at which the program begins, as the kernel tells it the dynamic loader
// (AT_ENTRY of getauxval(3)).
func (p traced) entry() (uint64, error) {
	aux, err := os.ReadFile("/proc/" + strconv.Itoa(int(p)) + "/auxv")
	if err != nil {
		return 0, err
	}
	const entry = 9 // AT_ENTRY; in the vector of a 32-bit program, whose numbers have 4 bytes, there is none
	for ; len(aux) >= 16; aux = aux[16:] {
		if binary.NativeEndian.Uint64(aux) == entry {
			return binary.NativeEndian.Uint64(aux[8:]), nil
		}
	}
	return 0, os.ErrNotExist
}
