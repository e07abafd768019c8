package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/compatbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/tool"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

// nobody is a process that there is none of: above the kernel's largest number.
const nobody = 1 << 30

// realtime is a signal of which each one is queued.
const realtime = 40

func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){
		"kill": func() {
			for range 23 {
				syscall.Kill(os.Getpid(), 0)
			}
			syscall.Kill(nobody, syscall.SIGTERM)
			unix.Setrlimit(unix.RLIMIT_SIGPENDING, &unix.Rlimit{})
			info := siginfo(realtime)
			unix.RawSyscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(os.Getpid()), realtime,
				uintptr(unsafe.Pointer(&info[0])))
		},
		"ways": sendAll,
	})
}

// sendAll sends signals to this process in every way.
func sendAll() {
	signal.Ignore(unix.SIGUSR1, unix.SIGPIPE)
	timers := make(chan os.Signal, 2)
	signal.Notify(timers, unix.SIGALRM, unix.SIGUSR2)
	pid, tid := uintptr(os.Getpid()), uintptr(unix.Gettid())
	info := siginfo(unix.SIGUSR1)
	at := uintptr(unsafe.Pointer(&info[0]))
	fd, _ := unix.PidfdOpen(int(pid), 0)
	const sig = uintptr(unix.SIGUSR1)
	for i, c := range [][]uintptr{
		{unix.SYS_KILL, pid, sig},
		{unix.SYS_TKILL, tid, sig},
		{unix.SYS_TGKILL, pid, tid, sig},
		{unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), sig, 0, 0},
		{unix.SYS_RT_SIGQUEUEINFO, pid, sig, at},
		{unix.SYS_RT_TGSIGQUEUEINFO, pid, tid, sig, at},
	} {
		c = append(c, 0, 0, 0)
		for range i + 1 {
			unix.RawSyscall6(c[0], c[1], c[2], c[3], c[4], 0, 0)
		}
	}
	runtime.KeepAlive(info)
	unix.Setpgid(0, 0)
	unix.Kill(-int(pid), unix.SIGUSR1)

	in, out, _ := os.Pipe()
	in.Close()
	out.Write([]byte{0}) // SIGPIPE, from the kernel
	unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{Value: unix.Timeval{Usec: 1000}})
	<-timers
	event, id := [64]byte{8: byte(unix.SIGUSR2)}, int32(0) // struct sigevent: SIGEV_SIGNAL
	unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)),
		uintptr(unsafe.Pointer(&id)))
	value := [4]int64{3: 1e6} // struct itimerspec: once
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(id), 0, uintptr(unsafe.Pointer(&value)), 0, 0, 0)
	<-timers
}

// siginfo is a siginfo_t of sigqueue.
func siginfo(sig syscall.Signal) []byte {
	b := make([]byte, 128)
	binary.LittleEndian.PutUint32(b, uint32(sig))
	binary.LittleEndian.PutUint32(b[8:], ^uint32(0)) // SI_QUEUE
	return b
}

type row struct {
	PID, Sig, TPID, Result int
	Way                    string
}

// count counts the rows of a run.
func count(t *testing.T, out string) map[row]int {
	t.Helper()
	n := map[row]int{}
	for _, r := range tooltest.Objects[row](t, out) {
		n[r]++
	}
	return n
}

// equal fails the test unless the rows are as wanted.
func equal(t *testing.T, out string, want map[row]int) {
	t.Helper()
	got := count(t, out)
	if fmt.Sprint(got) != fmt.Sprint(want) { // sorted
		t.Errorf("rows:\n%+v, want:\n%+v:\n%s", got, want, out)
	}
}

// A child's 23 kills of itself are 23 rows without an error, its kill of nobody one with
// ESRCH, and a signal for which there is no room one with EAGAIN.
func TestLive(t *testing.T) {
	child := tooltest.Start(t, "kill")
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	equal(t, out, map[row]int{
		{child.PID, 0, child.PID, 0, "kill"}:                     23,
		{child.PID, 15, nobody, -3, "kill"}:                      1,
		{child.PID, realtime, child.PID, -11, "rt_sigqueueinfo"}: 1,
	})
}

// waysRows are the rows of the work ways.
func waysRows(pid int) map[row]int {
	usr1, usr2 := int(unix.SIGUSR1), int(unix.SIGUSR2)
	want := map[row]int{
		{pid, int(unix.SIGPIPE), pid, 0, "kernel"}: 1,
		{0, int(unix.SIGALRM), pid, 0, "timer"}:    1,
		{0, usr2, pid, 0, "timer"}:                 1,
	}
	for i, w := range ways[:timer] {
		want[row{pid, usr1, pid, 0, w.name}] = i + 1
	}
	want[row{pid, usr1, pid, 0, "kill"}]++ // of the process group
	return want
}

// TestWays: each signal is shown once, with its way. Only those of kill were shown.
func TestWays(t *testing.T) {
	child := tooltest.Start(t, "ways")
	out := tooltest.Live(t, run, []string{"-json", "-T", strconv.Itoa(child.PID)}, child.Work)
	equal(t, out, waysRows(child.PID))
}

// TestWaysUntyped: the same without the types of the kernel.
func TestWaysUntyped(t *testing.T) {
	testenv.Need(t, testenv.Long)
	child := tooltest.Start(t, "ways")
	untypedRun := func(ctx context.Context, args []string, stdout *tool.Output) error {
		o, err := parse(args, stdout)
		if err != nil {
			return err
		}
		sn := &snoop{o, action.NewLRU[uint32, call]("calls", 0), action.NewEvents[sent]("kills", 0)}
		return o.Run(ctx, stdout, "Tracing signals", sn.show, sn.program(untyped))
	}
	out := tooltest.Live(t, untypedRun, []string{"-json", "-T", strconv.Itoa(child.PID)}, child.Work)
	equal(t, out, waysRows(child.PID))
}

// TestWay: -w leaves those sent in these ways.
func TestWay(t *testing.T) {
	testenv.Need(t, testenv.Long)
	child := tooltest.Start(t, "ways")
	args := []string{
		"-json", "-w", "tgkill", "-w", "timer", "-s", strconv.Itoa(int(unix.SIGUSR1)),
		"-T", strconv.Itoa(child.PID),
	}
	out := tooltest.Live(t, run, args, child.Work)
	equal(t, out, map[row]int{{child.PID, int(unix.SIGUSR1), child.PID, 0, "tgkill"}: 3})
}

// TestLive32: the signals of a 32-bit program, and its calls that fail. They were not shown.
func TestLive32(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.BTF, compatbuild.Runs)
	const winch = int(unix.SIGWINCH) // ignored
	self, info := compatbuild.Saved{}, siginfo(unix.SIGWINCH)
	calls := []compatbuild.Call{
		{Name: "getpid", Save: true},
		{Name: "kill", Args: []any{self, winch}, Times: 1},
		{Name: "tkill", Args: []any{self, winch}, Times: 2},
		{Name: "tgkill", Args: []any{self, self, winch}, Times: 3},
		{Name: "rt_sigqueueinfo", Args: []any{self, winch, info}, Times: 5},
		{Name: "rt_tgsigqueueinfo", Args: []any{self, self, winch, info}, Times: 6},
		{Name: "kill", Args: []any{self, 0}, Times: 7},
		{Name: "tgkill", Args: []any{nobody, nobody, winch}, Times: 8},
		{Name: "pidfd_open", Args: []any{self, 0}, Save: true},
		{Name: "pidfd_send_signal", Args: []any{self, winch, 0, 0}, Times: 4},
	}
	image := compatbuild.Program(runtime.GOARCH, compatbuild.Framed(calls...)...)
	child := tooltest.StartProgram(t, compatbuild.Write(t, image))
	out := tooltest.Live(t, run, []string{"-json", "-p", strconv.Itoa(child.PID)}, child.Work)
	want := map[row]int{
		{child.PID, 0, child.PID, 0, "kill"}:     7,
		{child.PID, winch, nobody, -3, "tgkill"}: 8,
	}
	for i, w := range ways[:timer] {
		want[row{child.PID, winch, child.PID, 0, w.name}] = i + 1
	}
	equal(t, out, want)
}
