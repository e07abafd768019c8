package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// a case is a tool with the work that it must see.
type toolCase struct {
	what   string        // that it must see
	work   func() error  // in a process of its own, whose name is btwork
	want   []string      // regular expressions of lines; PID is the process
	lacks  func() error  // what the machine lacks for the work, nil for nothing
	needs  string        // regular expression of a probe, where the script takes what there is
	ignore bool          // missing probes: the script has those of several kernels, and does not say so
	after  time.Duration // until what was seen is printed
}

// btwork is the name of the processes.
const btwork = "btwork"

var cases map[string]toolCase

func init() {
	blocks := toolCase{
		work: readDisk, lacks: disk(), after: 200 * time.Millisecond,
	}
	block := func(what string, want ...string) toolCase {
		c := blocks
		c.what, c.want = what, want
		return c
	}
	const second = 1200 * time.Millisecond // what prints each second has printed
	cases = map[string]toolCase{
		"bashreadline":          {what: "a line that bash read", work: bash, want: []string{`^\S+ +\d+ +echo bttools-line$`}, lacks: program("bash")},
		"biolatency":            block("reads of a disk", `^\[\d+.*\) +\d+ \|`),
		"biolatency-kp":         {what: "reads of a disk", work: readDisk, want: []string{`^\[\d+.*\) +\d+ \|`}, lacks: disk(), needs: "blk_account_io_done", after: 200 * time.Millisecond},
		"biosnoop":              block("the process's reads of a disk", `^\d+ +\d+ +\d+ +btwork +PID +\d+$`),
		"old/biosnoop-pre-5.17": {what: "the process's reads of a disk", work: readDisk, want: []string{` btwork +PID +`}, lacks: disk(), needs: "blk_account_io_done", ignore: true, after: 200 * time.Millisecond},
		"old/biosnoop-pre-6.4":  {what: "the process's reads of a disk", work: readDisk, want: []string{` btwork +PID +`}, lacks: disk(), needs: "blk_account_io_done", ignore: true, after: 200 * time.Millisecond},
		"biostacks":             block("the stack of reads of a disk", `submit_bio|blk_`),
		"old/biostacks":         {what: "the stack of reads of a disk", work: readDisk, want: []string{`submit_bio|blk_`}, lacks: disk(), needs: "blk_account_io_start", after: 200 * time.Millisecond},
		"bitesize":              block("their sizes", `^@\[btwork\]:`, `^\[4K, 8K\) +\d+ `),
		"capable":               {what: "a check of CAP_SYS_CHROOT", work: chroot, want: []string{`^\S+ +\d+ +PID +btwork +18 +CAP_SYS_CHROOT`}},
		"cpuwalk":               {what: "samples of a busy CPU", work: busy, want: []string{`^\[\d+\] +\d{2,} \|`}},
		"dcsnoop":               {what: "a name that is not there", work: open, want: []string{`^\d+ +PID +btwork +[RM] \S*bttools-none$`}},
		"execsnoop":             {what: "an execution with its arguments", work: execute, want: []string{`^\S+ +\d+ +PID +\S*bttools.* -work exit`}},
		"gethostlatency":        {what: "the look-up of a host", work: getent, want: []string{`getent +\d+ +127\.0\.0\.1$`}, lacks: program("getent")},
		"killsnoop":             {what: "a signal and its receiver", work: kill, want: []string{`^\S+ +PID +btwork +(10|SIGUSR1) +\d+ +0$`}},
		"loads":                 {what: "the load averages", work: sleep, want: []string{`load averages: \d+\.\d\d`}, after: second},
		"mdflush":               {what: "a flush of a mirrored disk", work: mirror, want: []string{`^\S+ +PID +btwork +md\d+$`}, lacks: disk("mdadm")},
		"old/mdflush":           {what: "a flush of a mirrored disk", work: mirror, want: []string{` PID +btwork +md\d+$`}, lacks: disk("mdadm")},
		"naptime":               {what: "a sleep of 123 ms", work: nap, want: []string{`btwork +0\.123$`}},
		"oomkill":               {what: "a process that the kernel killed", work: outOfMemory, want: []string{`^\S+ Triggered by P[I]D \d+ \("btwork"\), CGROUP \d+ \(".*bttools\S*"\), OOM kill of P[I]D \d+ \("btwork"\), \d+ pages, loadavg: \d+\.\d\d`}},
		"opensnoop":             {what: "an open that failed", work: open, want: []string{`^PID +btwork +-1 +2 /no/such/bttools-none$`}},
		"pidpersec":             {what: "new processes each second", work: forks, want: []string{`s/sec: @: [1-9]\d*$`}, after: second},
		"runqlat":               {what: "waits for a CPU", work: busy, want: []string{`^\[\d+.*\) +\d+ \|`}},
		"runqlen":               {what: "lengths of run queues", work: busy, want: []string{`^\[\d+\] +\d+ \|`}},
		"old/runqlen":           {what: "lengths of run queues", work: busy, want: []string{`^\[\d+\] +\d+ \|`}},
		"setuids":               {what: "setuid and its result", work: setuid, want: []string{`^\S+ +PID +btwork +\d+ +setuid +uid=0 \(0\)$`}},
		"sslsnoop":              {what: "reads of openssl", work: tls, want: []string{`openssl +\d+ +.*SSL_read`}, lacks: program("openssl")},
		"ssllatency":            {what: "reads of openssl", work: tls, want: []string{`SSL_read`}, lacks: program("openssl")},
		"statsnoop":             {what: "a stat that failed", work: stat, want: []string{`^PID +btwork +2 /no/such/bttools-none$`}},
		"swapin":                {what: "pages read from swap", work: swap, want: []string{`^@\[btwork, \d+\]: [1-9]\d+$`}, lacks: disk("mkswap"), needs: "swap_read", after: second},
		"syncsnoop":             {what: "fdatasync", work: syncFile, want: []string{`PID +btwork +tracepoint:syscalls:sys_enter_fdatasync$`}},
		"syscount":              {what: "calls by process", work: open, want: []string{`^@process\[btwork\]: \d+$`}},
		"tcpaccept":             {what: "an accepted connection", work: connect, want: []string{`^\S+ +PID +btwork +127\.0\.0\.1 +\d+ +127\.0\.0\.1 +\d+ +\d+/\d+$`}},
		"tcpconnect":            {what: "a connection", work: connect, want: []string{`^\S+ +PID +btwork +127\.0\.0\.1 +\d+ +127\.0\.0\.1 +\d+ *$`}},
		"tcpdrop":               {what: "a segment that the policy of its group drops", work: dropped, want: []string{`^\S+ +PID +btwork +127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+ +SYN_SENT *$`, `^\s+\S*ip_\w*output`}},
		"tcplife":               {what: "a connection's 64 KB", work: connect, want: []string{`^PID +btwork +127\.0\.0\.1 +\d+ +127\.0\.0\.1 +\d+ +64 +0 +\d+$`}, after: 300 * time.Millisecond},
		"tcpretrans":            {what: "the SYN again", work: filtered, want: []string{`127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+ +SYN_SENT`}},
		"tcpsynbl":              {what: "the backlog at a connection", work: connect, want: []string{`^@backlog\[\d+\]:`}},
		"threadsnoop":           {what: "a thread of Python's", work: threads, want: []string{`python3`}, lacks: program("python3")},
		"undump":                {what: "the bytes of a UNIX socket", work: socket, want: []string{`btwork +PID +\d+ +bttools-bytes$`}},
		"vfscount":              {what: "calls of vfs_open", work: open, want: []string{`vfs_open\]: [1-9]`}},
		"vfsstat":               {what: "reads each second", work: readFiles, want: []string{`^@\[vfs_read\w*\]: [1-9]`}, after: second},
		"writeback":             {what: "the end of a write-back", work: writeBack, want: []string{`^\S+ +\S+ +\d+ +\w+ +\d+\.\d+$`}, lacks: diskFiles, after: 500 * time.Millisecond},
		"xfsdist":               {what: "reads, writes and syncs of XFS", work: files, want: []string{`^@us\[xfs_file_open\]:`, `^@us\[xfs_file_read_iter\]:`, `^@us\[xfs_file_write_iter\]:`, `^@us\[xfs_file_fsync\]:`}, lacks: disk("mkfs.xfs"), needs: "xfs_file_fsync"},
	}
}

// be is the process of a tool.
func be(name string) error {
	work := cases[name].work
	switch name {
	case "exit":
		return nil
	case "fill":
		work = fill
	}
	if work == nil {
		return fmt.Errorf("no tool %s", name)
	}
	runtime.LockOSThread() // whose name it has
	comm := []byte(btwork + "\x00")
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&comm[0])), 0, 0, 0); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/self/comm", comm, 0); err != nil { // its first thread, too
		return err
	}
	time.Sleep(50 * time.Millisecond)
	return work()
}

// program returns what the machine lacks of programs.
func program(names ...string) func() error {
	return func() error {
		for _, n := range names {
			if _, err := exec.LookPath(n); err != nil {
				return errors.New("there is no " + n)
			}
		}
		return nil
	}
}

// bash has bash read a line as from a terminal.
func bash() error {
	cmd := exec.Command("bash", "--norc", "-i")
	cmd.Stdin = strings.NewReader("echo bttools-line\nexit\n")
	return cmd.Run()
}

// chroot asks for a capability.
func chroot() error { return unix.Chroot("/") }

func busy() error {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
	}
	return nil
}

func open() error {
	for range 3 {
		if f, err := os.Open("/no/such/bttools-none"); err == nil {
			f.Close()
		}
		unix.Stat("/bttools-none", &unix.Stat_t{}) // a name that the kernel looks up
	}
	return nil
}

func stat() error {
	unix.Statx(unix.AT_FDCWD, "/no/such/bttools-none", 0, unix.STATX_SIZE, &unix.Statx_t{})
	return nil
}

func execute() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	return exec.Command(exe, "-work", "exit").Run()
}

func getent() error { return exec.Command("getent", "ahosts", "127.0.0.1").Run() }

func kill() error {
	child := exec.Command(os.Args[0], "-work", "loads")
	if err := child.Start(); err != nil {
		return err
	}
	err := unix.Kill(child.Process.Pid, unix.SIGUSR1)
	child.Process.Kill()
	child.Wait()
	return err
}

func sleep() error {
	time.Sleep(time.Second)
	return nil
}

func nap() error {
	ts := unix.NsecToTimespec(int64(123 * time.Millisecond))
	for {
		if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &ts, nil); err != unix.EINTR {
			return err
		}
	}
}

func forks() error {
	for range 20 {
		if err := execute(); err != nil {
			return err
		}
	}
	return nil
}

func setuid() error { // of this thread alone
	_, _, errno := unix.RawSyscall(unix.SYS_SETUID, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// tls has openssl ask itself for a page.
func tls() error {
	dir, err := os.MkdirTemp("", "bttools")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	key, cert := filepath.Join(dir, "key"), filepath.Join(dir, "cert")
	make := exec.Command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", key, "-out", cert)
	if out, err := make.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port
	if err != nil {
		return err
	}
	at := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(at)
	server := exec.Command("openssl", "s_server", "-accept", port, "-key", key, "-cert", cert, "-www", "-naccept", "1")
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Wait()
	defer server.Process.Kill()
	for range 100 {
		client := exec.Command("openssl", "s_client", "-connect", at, "-quiet")
		client.Stdin = strings.NewReader("GET / HTTP/1.0\r\n\r\n")
		if out, _ := client.CombinedOutput(); strings.Contains(string(out), "HTTP/1.0 200") {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("openssl did not answer")
}

func syncFile() error {
	f, err := os.CreateTemp("", "bttools")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	return unix.Fdatasync(int(f.Fd()))
}

// connect connects to itself, sends 64 KB, and closes both ends.
func connect() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	to := &unix.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	received := make(chan error, 1)
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.SetNonblock(int(file.Fd()), false); err != nil {
		return err
	}
	if err := unix.Connect(client, to); err != nil { // in this thread, which has the name
		return err
	}
	server, _, err := unix.Accept(int(file.Fd()))
	if err != nil {
		return err
	}
	go func() {
		f := os.NewFile(uintptr(server), "server")
		_, err := io.Copy(io.Discard, f)
		received <- errors.Join(err, f.Close())
	}()
	b := make([]byte, 1024)
	for range 64 {
		if _, err := unix.Write(client, b); err != nil {
			return err
		}
	}
	if err := unix.Close(client); err != nil {
		return err
	}
	return <-received
}

// filtered connects to a socket whose filter drops everything: the first segment is sent again after
// a second.
func filtered() error {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(l)
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}}
	prog := &unix.SockFprog{Len: 1, Filter: &none[0]}
	err = errors.Join(
		unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1),
		unix.SetsockoptSockFprog(l, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, prog),
	)
	if err != nil {
		return err
	}
	to, err := unix.Getsockname(l)
	if err != nil {
		return err
	}
	c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(c)
	if err := unix.Connect(c, to); err != unix.EINPROGRESS {
		return fmt.Errorf("connect: %w", err)
	}
	time.Sleep(1500 * time.Millisecond)
	return nil
}

func threads() error {
	return exec.Command("python3", "-c", "import threading; t = threading.Thread(target=print); t.start(); t.join()").Run()
}

func socket() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fds[0], []byte("bttools-bytes")); err != nil {
		return err
	}
	_, err = unix.Read(fds[1], make([]byte, 64))
	return err
}

func readFiles() error {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		if _, err := os.ReadFile("/proc/self/stat"); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
