package broker

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
)

// dialAs connects as some user: for the kernel, and so for the broker, the peer
// is whoever the thread was that called connect(2).
func (b *testBroker) dialAs(t *testing.T, uid int) *Client {
	t.Helper()
	type dialed struct {
		c   *Client
		err error
	}
	done := make(chan dialed, 1)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		id, same := uintptr(uid), ^uintptr(0)
		for _, call := range [][4]uintptr{
			{syscall.SYS_SETGROUPS}, {syscall.SYS_SETRESGID, same, id, same}, {syscall.SYS_SETRESUID, same, id, same},
		} {
			if _, _, no := syscall.RawSyscall(call[0], call[1], call[2], call[3]); no != 0 {
				done <- dialed{nil, no}
				return
			}
		}
		c, err := Dial(b.path)
		done <- dialed{c, err}
	}()
	d := <-done
	if d.err != nil {
		t.Fatal(d.err)
	}
	t.Cleanup(func() { d.c.Close() })
	return d.c
}

// target is a process to be probed, which does what it is told.
type target struct {
	t   *testing.T
	pid int
	in  io.WriteCloser
	out *bufio.Reader
}

const targetEnv = "BORESCOPE_BROKER_TARGET"

// startTarget starts a process. change may change how.
func startTarget(t *testing.T, uid int, locked bool, change func(*testenv.Cmd)) *target {
	t.Helper()
	cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestTargetChild$")
	cmd.Env = append(os.Environ(), targetEnv+"=1")
	if locked {
		cmd.Env = append(cmd.Env, lockEnv+"=1")
	}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Stderr = os.Stderr
	if change != nil {
		change(cmd)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
	})
	p := &target{t, cmd.Process.Pid, in, bufio.NewReader(out)}
	p.expect("ready")
	return p
}

func (p *target) expect(want string) {
	p.t.Helper()
	if got := p.answer(); got != want {
		p.t.Fatalf("the target says %q, want %q", got, want)
	}
}

func (p *target) answer() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the target: %v", err)
	}
	return strings.TrimSpace(line)
}

// tell has the process do something, and returns what it says.
func (p *target) tell(format string, args ...any) string {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
	return p.answer()
}

// TestTargetChild is the process.
func TestTargetChild(t *testing.T) {
	if os.Getenv(targetEnv) == "" {
		return // it is of use to its parent only
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	client := asks{held: map[uint64]*Attachment{}}
	for lines.Scan() {
		what, arg, _ := strings.Cut(lines.Text(), " ")
		n, _ := strconv.Atoi(arg)
		switch what {
		case "call":
			for i := range n {
				marker(i)
			}
			fmt.Println("called")
		case "exec":
			if err := syscall.Exec(cmp.Or(arg, "/proc/self/exe"), os.Args, os.Environ()); err != nil {
				fmt.Println(err)
			}
		case "read":
			// Without waiting for FIFOs, which are nobody's to probe.
			st, err := os.Stat(arg)
			if err == nil && st.Mode().IsRegular() {
				_, err = os.ReadFile(arg)
			}
			fmt.Println(err == nil && st.Mode().IsRegular())
		case "trace":
			// The kernel says whether it may before it looks at the address.
			b := make([]byte, 1)
			local := []unix.Iovec{{Base: &b[0], Len: 1}}
			_, err := unix.ProcessVMReadv(n, local, []unix.RemoteIovec{{Base: 0, Len: 1}}, 0)
			fmt.Println(err != unix.EPERM && err != unix.ESRCH)
		case "threads":
			for range n {
				go func() {
					runtime.LockOSThread()
					select {}
				}()
			}
			for threadCount() < n {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("started")
		case "spin": // in user mode and in the kernel
			spin(time.Duration(n) * time.Millisecond)
			fmt.Println("spun")
		case "child": // of another program, as it were
			cmd := testenv.Command(t, "/proc/self/exe", "-test.run=^TestTargetChild$")
			cmd.Stdin = strings.NewReader("spin " + arg + "\n")
			fmt.Println(cmp.Or(cmd.Run(), errors.New("ended")))
		case "fault":
			fmt.Println(cmp.Or(fault(n), errors.New("faulted")))
		case "map":
			fmt.Println(cmp.Or(mapLibrary(arg), errors.New("mapped")))
		default:
			fmt.Println(client.do(what, arg))
		}
	}
}

// spin spends time in user mode and about as much in the kernel; with the race detector a tenth.
func spin(long time.Duration) {
	b := make([]byte, 1<<20)
	zero, err := os.Open("/dev/zero")
	if err != nil {
		return
	}
	defer zero.Close()
	for end := time.Now().Add(long); time.Now().Before(end); {
		zero.Read(b)
		for i := 0; i < len(b); i += 32 {
			b[i]++
		}
	}
}

// fault has n pages faulted in.
func fault(n int) error {
	const pages = 256
	for ; n > 0; n -= pages {
		m, err := unix.Mmap(-1, 0, pages*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			return err
		}
		for i := range pages {
			m[4096*i] = 1
		}
		if err := unix.Munmap(m); err != nil {
			return err
		}
	}
	return nil
}

func threadCount() int {
	entries, _ := os.ReadDir("/proc/self/task")
	return len(entries)
}

// image is a program's file.
func image() []byte {
	f := program()
	return f.Bytes()
}

// program has one function, f, at 0x1000.
func program() elfbuild.File {
	machine, code := elf.EM_X86_64, []byte{0x90, 0x90, 0x90, 0xc3}
	if runtime.GOARCH == "arm64" {
		machine, code = elf.EM_AARCH64, []byte{0x1f, 0x20, 0x03, 0xd5, 0xc0, 0x03, 0x5f, 0xd6}
	}
	return elfbuild.File{
		Machine: machine,
		Sections: []elfbuild.Section{{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR, Addr: 0x1000, Data: code,
		}},
		Symbols: []elfbuild.Symbol{{
			Name: "f", Value: 0x1000, Size: uint64(len(code)), Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 1,
		}},
	}
}

// hall is a directory of files that all can get at, as far as their modes go.
func hall(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hall")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// put puts a program there.
func put(t *testing.T, path string, mode os.FileMode, owner int) string {
	t.Helper()
	return putImage(t, path, image(), mode, owner)
}

func putImage(t *testing.T, path string, image []byte, mode os.FileMode, owner int) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, image, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, owner, owner); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// connect is a connection that says nothing.
func (b *testBroker) connect(t *testing.T) *net.UnixConn {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: b.path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// deaf mounts a file system whose server never answers, in a mount namespace of
// its own, and starts a process of nobody's there. The descriptor is the server's.
// Whoever reads of it with a lock that others need stops the machine.
func deaf(t *testing.T, dir string) (int, *target) {
	t.Helper()
	testenv.Need(t, testenv.Guest)
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	testenv.Need(t, testenv.Got("/dev/fuse", err, "no such device"))
	up, end := make(chan *target), make(chan struct{})
	var mounted error
	var in func()
	in = func() {
		runtime.LockOSThread() // for ever
		if unix.Gettid() == os.Getpid() {
			go in()
			<-end
			runtime.UnlockOSThread()
			return
		}
		mounted = unix.Unshare(unix.CLONE_NEWNS)
		if mounted == nil { // otherwise it were everybody's root that becomes private
			mounted = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if mounted == nil {
			mounted = unix.Mount("deaf", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev))
		}
		if mounted != nil {
			close(up)
			return
		}
		up <- startTarget(t, nobody, true, func(cmd *testenv.Cmd) { cmd.Here() }) // in this namespace
		<-end
	}
	go in()
	p := <-up
	t.Cleanup(func() { close(end) })
	if mounted != nil {
		unix.Close(dev)
		testenv.Need(t, testenv.Got("mounting FUSE", mounted, "no such device"))
		t.Fatal(mounted)
	}
	return dev, p
}
