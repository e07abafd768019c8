//go:build linux

package action_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
)

// datagrams are what the packet tests send: mostly small, one of them in pages
// beside the buffer's linear part (above SKB_MAX_ALLOC, 16 KiB), and one longer
// than what a record holds.
func datagrams() [][]byte {
	out := make([][]byte, 23)
	for i := range out {
		n := 40 + i
		switch i {
		case 7:
			n = 40_000
		case 11:
			n = 65_507 // the longest that UDP has
		}
		out[i] = make([]byte, n)
		for j := range out[i] {
			out[i][j] = byte(j*7 + i)
		}
		copy(out[i], fmt.Sprintf("borescope packet %02d", i))
	}
	return out
}

// sendUDP sends datagrams over the loopback device, one by one, and returns the ports.
func sendUDP(t *testing.T, list [][]byte) (from, to int) {
	t.Helper()
	sink, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	c, err := net.DialUDP("udp4", nil, sink.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetWriteBuffer(1 << 20); err != nil {
		t.Fatal(err)
	}
	for _, b := range list {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	return c.LocalAddr().(*net.UDPAddr).Port, sink.LocalAddr().(*net.UDPAddr).Port
}

// readAll reads the packets that are there, as copies.
func readAll(t *testing.T, r *action.PacketReader) (out []action.Packet) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		var p action.Packet
		lost, err := r.Read(ctx, &p)
		if errors.Is(err, context.Canceled) {
			return out
		}
		if err != nil || lost != 0 {
			t.Fatalf("%d lost, %v", lost, err)
		}
		p.Data = bytes.Clone(p.Data)
		out = append(out, p)
	}
}

// udpPayload checks the headers of a packet and returns what is behind them.
func udpPayload(t *testing.T, p action.Packet, from, to, size int) []byte {
	t.Helper()
	be, b := binary.BigEndian, p.Data
	if p.Len != 28+size || len(b) < 28 {
		t.Fatalf("packet of %d bytes, %d captured, with a datagram of %d", p.Len, len(b), size)
	}
	if b[0] != 0x45 || b[9] != 17 || int(be.Uint16(b[2:])) != p.Len || !bytes.Equal(b[12:20], []byte{127, 0, 0, 1, 127, 0, 0, 1}) {
		t.Errorf("IP header % x", b[:20])
	}
	if int(be.Uint16(b[20:])) != from || int(be.Uint16(b[22:])) != to || int(be.Uint16(b[24:])) != 8+size {
		t.Errorf("UDP header % x, ports %d and %d, %d bytes", b[20:28], from, to, size)
	}
	return b[28:]
}

// packetProgram captures this process's packets at a target, whole and by their
// first 50 bytes, and counts those that are not in one piece.
func packetProgram(target probe.Target, whole, begin *action.Packets, pieces *action.Counter[action.None]) *action.Program {
	p := action.NewProgram("packets")
	p.IncludeSelf = true
	p.On(target, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()))
		skb := c.ArgNamed("skb").Ptr()
		c.If(skb.Member("data_len").Ne(0), func() { pieces.Inc(c) })
		whole.Emit(c, skb, nil)
		begin.Emit(c, skb, c.Const(40).Add(c.PID().Gt(0).Int().Mul(10)))
	})
	return p
}

// testPackets sends datagrams and compares what is captured of them, behind
// header bytes of the link, with what was sent.
func testPackets(t *testing.T, target probe.Target, o *probe.Options, header int) {
	whole, begin := action.NewPackets("whole", 0), action.NewPackets("begin", 4096)
	pieces := action.NewCount("pieces")
	s := attachOrSkip(t, packetProgram(target, whole, begin, pieces), &action.Options{Resolve: o})
	wholes, err := whole.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer wholes.Close()
	begins, err := begin.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer begins.Close()
	sent := datagrams()
	before := monotonic(t)
	from, to := sendUDP(t, sent)
	after := monotonic(t)
	got, starts := readAll(t, wholes), readAll(t, begins)
	if len(got) != len(sent) || len(starts) != len(sent) {
		t.Fatalf("%d packets and %d beginnings of %d", len(got), len(starts), len(sent))
	}
	for i, p := range got {
		if want := min(p.Len, action.MaxPacket); len(p.Data) != want {
			t.Errorf("packet %d: %d bytes of %d", i, len(p.Data), p.Len)
		}
		if len(starts[i].Data) != 50 || starts[i].Len != p.Len || !bytes.HasPrefix(p.Data, starts[i].Data) {
			t.Errorf("packet %d begins % x (%d of %d bytes), and alone % x (of %d)",
				i, p.Data[:50], len(p.Data), p.Len, starts[i].Data, starts[i].Len)
		}
		if p.Time < before || p.Time > after {
			t.Errorf("packet %d is from %d, not from %d to %d", i, p.Time, before, after)
		}
		p.Skip(header)
		if data := udpPayload(t, p, from, to, len(sent[i])); !bytes.HasPrefix(sent[i], data) || len(data) < len(sent[i]) && i != 11 {
			t.Errorf("packet %d has other bytes than what was sent", i)
		}
	}
	if n := tableOf(t, s, pieces)[action.None{}]; n != 2 {
		t.Errorf("%d packets were not in one piece, want 2", n)
	}
	if st, err := s.Stats(); err != nil || st.Full != 0 || st.Faults != 0 {
		t.Errorf("stats %+v, %v", st, err)
	}
}

// TestPackets captures what goes out over the loopback device at a tracepoint,
// where packets begin with an Ethernet header.
func TestPackets(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	testPackets(t, probe.RawTracepoint{Name: "net_dev_queue"}, &probe.Options{PreferBTF: true}, 14)
}

// TestPacketsFentry captures them at a function, where they begin with the IP header.
func TestPacketsFentry(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Fentry)
	testPackets(t, probe.Fentry{Symbol: "ip_output"}, nil, 0)
}

// TestPacketsLost: packets that find no room in a buffer, or no buffer because
// nobody reads, are counted, and those that were captured are whole.
func TestPacketsLost(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.TPBTF)
	read, unread := action.NewPackets("read", 4096), action.NewPackets("unread", 4096)
	p := action.NewProgram("lost")
	p.IncludeSelf = true
	p.On(probe.RawTracepoint{Name: "net_dev_queue"}, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()))
		read.Emit(c, c.Arg(0).Ptr(), nil)
		unread.Emit(c, c.Arg(0).Ptr(), 1)
	})
	s := attachOrSkip(t, p, &action.Options{Resolve: &probe.Options{PreferBTF: true}})
	r, err := read.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sent := make([][]byte, 23)
	for i := range sent {
		sent[i] = bytes.Repeat([]byte{byte(i)}, 1500)
	}
	from, to := sendUDP(t, sent)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var pk action.Packet
	seen := uint64(0)
	for ; ; seen++ {
		if _, err := r.Read(ctx, &pk); errors.Is(err, context.Canceled) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pk.Skip(14)
		if data := udpPayload(t, pk, from, to, 1500); !bytes.Equal(data, sent[data[0]]) {
			t.Errorf("packet %d has other bytes than what was sent", seen)
		}
	}
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	rs, err := r.Stats()
	if err != nil || rs.Read != seen || rs.Lost != 23-seen {
		t.Errorf("reader: %+v, %v; %d seen", rs, err, seen)
	}
	if seen == 0 || seen >= 23 || seen+st.Maps[0].Full != 23 || st.Maps[1].Full != 23 {
		t.Errorf("%d packets seen, lost %+v; want 23 together, and 23", seen, st.Maps)
	}
}

// monotonic is CLOCK_MONOTONIC.
func monotonic(t *testing.T) uint64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return uint64(ts.Nano())
}
