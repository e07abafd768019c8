//go:build linux

package action_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
)

// datagrams are what the packet tests send: mostly small, one of them in pages
// beside the buffer's linear part (above SKB_MAX_ALLOC, 16 KiB), and one longer
// than what a record holds.
func datagrams() [][]byte {
	out := make([][]byte, 23)
	for i := range out {
		n := 400 + i
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
func readAll(t *testing.T, r *action.EventReader[action.Packet]) (out []action.Packet) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		var p action.Packet
		_, err := r.Read(ctx, &p)
		if errors.Is(err, context.Canceled) {
			return out
		}
		if err != nil {
			t.Fatal(err)
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

// captures are streams of the same packets.
type captures struct {
	whole, begin  *action.Packets // all of them, and their first 50 bytes
	small, unread *action.Packets // whole without room for all, and without a reader
	pieces        *action.Counter[action.None]
}

// program captures this process's packets at a target, and counts those that are
// not in one piece.
func (s *captures) program(target probe.Target) *action.Program {
	s.whole, s.begin = action.NewPackets("whole", 0), action.NewPackets("begin", 4096)
	s.small, s.unread = action.NewPackets("small", 4096), action.NewPackets("unread", 4096)
	s.pieces = action.NewCount("pieces")
	p := action.NewProgram("packets")
	p.IncludeSelf = true
	p.On(target, func(c *action.Ctx) {
		c.ReturnUnless(c.PID().Eq(os.Getpid()))
		skb := c.ArgNamed("skb").Ptr()
		c.If(skb.Member("data_len").Ne(0), func() { s.pieces.Inc(c) })
		s.whole.Emit(c, skb, nil)
		s.begin.Emit(c, skb, c.Const(40).Add(c.PID().Gt(0).Int().Mul(10)))
		s.small.Emit(c, skb, nil)
		s.unread.Emit(c, skb, 1)
	})
	return p
}

// testPackets sends datagrams and compares what is captured of them, behind
// header bytes of the link, with what was sent.
func testPackets(t *testing.T, target probe.Target, o *probe.Options, header int) {
	var streams captures
	s := attachOrSkip(t, streams.program(target), &action.Options{Resolve: o})
	var readers []*action.EventReader[action.Packet]
	for _, stream := range []*action.Packets{streams.whole, streams.begin, streams.small} {
		r, err := stream.Open(s)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		readers = append(readers, r)
	}
	sent := datagrams()
	before := monotonic(t)
	from, to := sendUDP(t, sent)
	after := monotonic(t)
	got, starts, some := readAll(t, readers[0]), readAll(t, readers[1]), readAll(t, readers[2])
	if len(got) != len(sent) || len(starts) != len(sent) {
		t.Fatalf("%d packets and %d beginnings of %d", len(got), len(starts), len(sent))
	}
	for i, p := range got {
		if want := min(p.Len, ir.MaxPacket); len(p.Data) != want {
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
	if n := tableOf(t, s, streams.pieces)[action.None{}]; n != 2 {
		t.Errorf("%d packets were not in one piece, want 2", n)
	}
	for _, p := range some {
		p.Skip(header)
		if i := slices.IndexFunc(sent, func(b []byte) bool { return len(b) == p.Len-28 }); i < 0 || !bytes.Equal(udpPayload(t, p, from, to, p.Len-28), sent[i]) {
			t.Errorf("a packet of %d bytes that found room has other bytes than what was sent", p.Len)
		}
	}
	st, err := s.Stats()
	if err != nil || st.Faults != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	lost := map[string]uint64{}
	for _, m := range st.Maps {
		lost[m.Name] = m.Full
	}
	rs, err := readers[2].Stats()
	if err != nil || len(some) == 0 || rs.Read != uint64(len(some)) || rs.Read+rs.Lost != 23 {
		t.Errorf("%d packets found room: %+v, %v; want 23 with those lost", len(some), rs, err)
	}
	if want := map[string]uint64{"whole": 0, "begin": 0, "pieces": 0, "unread": 23, "small": rs.Lost}; !maps.Equal(lost, want) {
		t.Errorf("lost %v, want %v", lost, want)
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

// monotonic is CLOCK_MONOTONIC.
func monotonic(t *testing.T) uint64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return uint64(ts.Nano())
}
