package script_test

import (
	"net"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script"
)

// dialled connects to a listener, and returns the cookies of the sockets of as many connections.
func dialled(t *testing.T, to net.Addr, n int) (cookies []uint64) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp4", to.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		raw, err := c.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		err2 := raw.Control(func(fd uintptr) {
			var cookie uint64
			cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE)
			cookies = append(cookies, cookie)
		})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
	}
	return cookies
}

// TestSocketCookie: in a raw tracepoint sockets have the cookies that getsockopt says: a client changes its state
// when it begins to connect and when it is connected.
func TestSocketCookie(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.TPBTF)
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := script.MustCompile(t, `rawtracepoint:inet_sock_set_state { if (bswap(args.sk.__sk_common.skc_dport) == (uint16)$1) { @[socket_cookie(args.sk)] = count(); } }`,
		&script.Options{Params: []string{strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}, IncludeSelf: true})
	s, err := script.Attach(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cookies := dialled(t, l.Addr(), 23)
	m, err := script.Map[uint64, uint64](s, "@")
	if err != nil {
		t.Fatal(err)
	}
	snap, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint64]uint64{}
	for _, e := range snap.Entries {
		got[e.Key] = e.Value
	}
	for _, c := range cookies {
		if got[c] != 2 {
			t.Errorf("socket %#x: %d changes of state, want 2", c, got[c])
		}
	}
	if len(got) != len(cookies) {
		t.Errorf("cookies %v, want those of %v", got, cookies)
	}
}
