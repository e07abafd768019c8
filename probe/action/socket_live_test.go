//go:build linux

package action_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir/bpf"
)

// socketStates counts a connection's changes of state by its cookie.
func socketStates(cookies *action.Counter[uint64], port int) *action.Program {
	p := action.NewProgram("cookie")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "inet_sock_set_state"}, func(c *action.Ctx) {
		sk := c.Arg(0).PtrTo("struct sock", false)
		c.If(sk.Member("__sk_common.skc_dport").Bswap().Eq(port), func() { cookies.Inc(c, sk.SocketCookie()) })
	})
	return p
}

// TestSocketCookie: a client's socket has the cookie that getsockopt says. It
// changes its state when it begins to connect and when it is connected.
func TestSocketCookie(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	cookies := action.NewCounter[uint64]("cookies", 64)
	s := attachOrSkip(t, socketStates(cookies, port), &action.Options{Resolve: &probe.Options{PreferBTF: true}})
	want := map[uint64]uint64{}
	for range 23 {
		c, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		raw, err := c.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var cookie uint64
		if cerr := raw.Control(func(fd uintptr) { cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
		want[cookie] = 2
	}
	got := tableOf(t, s, cookies)
	for cookie, n := range want {
		if got[cookie] != n {
			t.Errorf("socket %#x: %d changes of state, want %d", cookie, got[cookie], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("cookies %v, want those of %v", got, want)
	}
	p := action.NewProgram("found")
	p.On(probe.RawTracepoint{Name: "inet_sock_set_state"}, func(c *action.Ctx) {
		cookies.Inc(c, c.Arg(0).PtrTo("struct sock", false).Member("__sk_common.skc_listener").Ptr().SocketCookie())
	})
	if _, err := action.Attach(p, &action.Options{Resolve: &probe.Options{PreferBTF: true}}); err == nil || !strings.Contains(err.Error(), "argument of the probe") {
		t.Errorf("of a socket found through another: %v", err)
	}
}

// TestSocketCookieRefused: where the kernel does not know the socket, that is said.
func TestSocketCookieRefused(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	cookies := action.NewCounter[uint64]("cookies", 64)
	env := probe.NewEnv(nil)
	types, err := env.BTF()
	if err != nil {
		t.Fatal(err)
	}
	plan := rawPlan2()
	plan.Kernel, plan.BTF = "6.12.0", types
	if _, err := bpf.Compile(socketStates(cookies, 1).Program, plan); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "PreferBTF") {
		t.Errorf("in a raw tracepoint: %v", err)
	}
	plan.Kernel = "5.10.0"
	if _, err := bpf.Compile(socketStates(cookies, 1).Program, plan); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "5.12") {
		t.Errorf("on 5.10: %v", err)
	}
	p := marked("nosocket", func(c *action.Ctx) { cookies.Inc(c, c.CurTask().SocketCookie()) })
	if _, err := bpf.Compile(p.Program, plan); err == nil || !strings.Contains(err.Error(), "struct sock") {
		t.Errorf("of a task: %v", err)
	}
}
