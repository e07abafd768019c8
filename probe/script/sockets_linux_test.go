package script_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
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
	p, err := script.Compile("stdin", `rawtracepoint:inet_sock_set_state { if (bswap(args.sk.__sk_common.skc_dport) == (uint16)$1) { @[socket_cookie(args.sk)] = count(); } }`,
		&script.Options{Params: []string{strconv.Itoa(l.Addr().(*net.TCPAddr).Port)}, IncludeSelf: true})
	testenv.SkipUnsupported(t, err) // before Linux 5.12
	if err != nil {
		t.Fatal(err)
	}
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

// TestPackets: files have the packets for which skboutput() was called, without their first bytes, cut where the script
// says; with and without other records.
func TestPackets(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Ringbuf, testenv.TPBTF)
	const size, heads = 777, 20 + 8 // bytes of IPv4 and UDP
	to, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	port := to.LocalAddr().(*net.UDPAddr).Port
	conn, err := net.Dial("udp4", to.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, end := range []string{"", `printf("%d\n", $n); `} {
		dir := t.TempDir()
		p := script.MustCompile(t, `rawtracepoint:net_dev_queue { if (args.skb.len == 14 + `+strconv.Itoa(heads+size)+`) {
  skboutput("`+dir+`/whole", args.skb, 10000, 14); $n = skboutput("`+dir+`/part", (struct sk_buff *)arg0, 60, 0); `+end+`} }`,
			&script.Options{IncludeSelf: true})
		var out, said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		_, err := p.Run(ctx, &script.RunOptions{Stdout: &out, Stderr: &said, Quiet: true, Strict: true, Attached: func() error {
			defer cancel()
			for range 23 {
				if _, err := conn.Write(make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil || strings.Count(out.String(), "0\n") != 23*len(end)/max(len(end), 1) {
			t.Errorf("it printed %q, %v, and said %s", &out, err, &said)
		}
		for name, want := range map[string]struct{ captured, length, at int }{
			"whole": {heads + size, heads + size, 0}, "part": {60, 14 + heads + size, 14},
		} {
			b, err := os.ReadFile(dir + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for b = b[24:]; len(b) > 0; n++ { // behind the file's head
				captured, length := binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
				ip := b[16+want.at:]
				if int(captured) != want.captured || int(length) != want.length || ip[0] != 0x45 || ip[9] != 17 || int(binary.BigEndian.Uint16(ip[22:])) != port {
					t.Errorf("%s: %d of %d bytes, which begin with % x", name, captured, length, ip[:24])
				}
				b = b[16+captured:]
			}
			if n != 23 {
				t.Errorf("%s has %d packets", name, n)
			}
		}
	}
	file := t.TempDir() + "/some"
	p := script.MustCompile(t, `config = { perf_rb_pages = 1 } rawtracepoint:net_dev_queue {
  if (args.skb.len == 14 + `+strconv.Itoa(heads+size)+`) { skboutput("`+file+`", args.skb, 10000, 14); } }`, &script.Options{IncludeSelf: true})
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.Run(ctx, &script.RunOptions{Stderr: &said, Quiet: true, Attached: func() (err error) {
		defer cancel()
		for i := 0; i < 23 && err == nil; i++ {
			_, err = conn.Write(make([]byte, size))
		}
		return err
	}})
	b, readErr := os.ReadFile(file)
	kept := (len(b) - 24) / (16 + heads + size)
	want := fmt.Sprintf("WARNING: %d packets were lost: their buffer was full\n", 23-kept)
	if err != nil || readErr != nil || kept < 1 || kept > 22 || said.String() != want {
		t.Errorf("%d packets were kept, %v, %v; it said %q, want %q", kept, err, readErr, &said, want)
	}
	p = script.MustCompile(t, `rawtracepoint:net_dev_queue { skboutput("/no/such/directory/file", args.skb, 1, 0); }`, nil)
	if _, err := p.Run(t.Context(), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that cannot be made: %v", err)
	}
}
