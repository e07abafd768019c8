package difftest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/action"
	"github.com/borescope/borescope/probe/ir"
	"github.com/borescope/borescope/probe/ir/bpf"
	"github.com/borescope/borescope/probe/ir/interp"
)

// skbType is a small struct sk_buff.
func skbType() *btf.Struct {
	uw := &btf.Int{Name: "unsigned int", Size: 4}
	skb := &btf.Struct{Name: "sk_buff", Size: 16}
	skb.Members = []btf.Member{{Name: "next", Type: &btf.Pointer{Target: skb}}, {Name: "len", Type: uw, Offset: 64}}
	return skb
}

// packetPlan is a plan for a typed tracepoint with a struct sk_buff and a number.
func packetPlan(release, arch string) *probe.Plan {
	plan := rawPlan(release, arch, &btf.Pointer{Target: skbType()}, kernelBTF()["int"])
	pp := &plan.Programs[0]
	pp.Type, pp.AttachType, pp.AttachTo, pp.Context = ebpf.Tracing, ebpf.AttachTraceRawTp, "net_dev_queue", probe.ContextTramp
	return plan
}

// packetProgram emits packets up to most bytes.
func packetProgram(most *ir.Expr) (*ir.Map, *ir.Program) {
	pkts := action.NewPackets("pkts", 0).Map()
	return pkts, one(&ir.Stmt{Op: ir.StmtPacket, Map: pkts, Key: &ir.Expr{Op: ir.OpArg}, X: most, Pos: ir.Pos{File: "x.bt", Line: 3}})
}

func TestPacketGolden(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, release := range []string{"5.10.0", "6.18.0"} {
			for name, most := range map[string]*ir.Expr{"packet": nil, "packet64": ir.NewConst(64), "packetn": {Op: ir.OpArg, Int: 1}} {
				_, p := packetProgram(most)
				clearPos(p.Actions[0].Body)
				got := p.String() + compileText(t, p, packetPlan(release, arch))
				file := filepath.Join("testdata", "golden", arch+"-"+release, name+".txt")
				if *flagUpdate {
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil || string(want) != got {
					t.Errorf("%s differs, or %v; if that is meant, run with -update\n%s", file, err, got)
				}
			}
		}
	}
}

// TestPacketInterpreted: the captured length of a packet, by its length and the limit, which
// may be out of range.
func TestPacketInterpreted(t *testing.T) {
	kernel := memory{0x1000: binary.LittleEndian.AppendUint32(make([]byte, 8), 100_000), 0x2000: binary.LittleEndian.AppendUint32(make([]byte, 8), 90)}
	for _, c := range []struct {
		skb, limit uint64
		most       *ir.Expr
		want       int // captured
	}{
		{0x1000, 0, nil, ir.MaxPacket},
		{0x2000, 0, nil, 90},
		{0x2000, 0, ir.NewConst(64), 64},
		{0x2000, 0, ir.NewConst(0), 0},
		{0x1000, 0, ir.NewConst(1 << 40), ir.MaxPacket},
		{0x2000, 64, &ir.Expr{Op: ir.OpArg, Int: 1}, 64},
		{0x2000, 91, &ir.Expr{Op: ir.OpArg, Int: 1}, 90},
		{0x1000, 70_000, &ir.Expr{Op: ir.OpArg, Int: 1}, ir.MaxPacket},
		{0x1000, 1<<64 - 1, &ir.Expr{Op: ir.OpArg, Int: 1}, ir.MaxPacket},
	} {
		pkts, p := packetProgram(c.most)
		in, err := interp.New(p, packetPlan("6.12.0", "amd64"), 0)
		if err != nil {
			t.Fatal(err)
		}
		m := &interp.Machine{
			Context: binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, c.skb), c.limit),
			Kernel:  kernel, Builtin: func(string) uint64 { return 77 },
			Packet: func(skb uint64, n int) []byte { return bytes.Repeat([]byte{byte(skb >> 12)}, min(n, 80)) },
		}
		if err := in.Run(m); err != nil {
			t.Fatal(err)
		}
		if len(m.Events[pkts]) != 1 {
			t.Fatalf("%d packets", len(m.Events[pkts]))
		}
		le, rec := binary.LittleEndian, m.Events[pkts][0]
		time, size, got := le.Uint64(rec), int(le.Uint32(rec[8:])), rec[unsafe.Sizeof(ir.PacketHead{}):][:le.Uint32(rec[unsafe.Offsetof(ir.PacketHead{}.Captured):])]
		length := int(le.Uint32(kernel[c.skb][8:]))
		data := append(bytes.Repeat([]byte{byte(c.skb >> 12)}, 80), make([]byte, ir.MaxPacket)...)[:c.want]
		if time != 77 || size != length || !bytes.Equal(got, data) {
			t.Errorf("%d of %d bytes at %d, want %d of %d", len(got), size, time, c.want, length)
		}
	}
	pkts, p := packetProgram(nil)
	in, err := interp.New(p, packetPlan("6.12.0", "amd64"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if m := (&interp.Machine{Context: make([]byte, 16)}); in.Run(m) != nil || len(m.Events[pkts]) != 0 {
		t.Errorf("without a packet: %v", m.Events)
	}
}

// memory is kernel memory by start address.
type memory map[uint64][]byte

func (m memory) ReadMemory(dst []byte, addr uint64) error {
	for at, b := range m {
		if addr >= at && addr+uint64(len(dst)) <= at+uint64(len(b)) {
			copy(dst, b[addr-at:])
			return nil
		}
	}
	return io.ErrUnexpectedEOF
}

// TestPacketRefused: statements that cannot emit packets are refused, with their place.
func TestPacketRefused(t *testing.T) {
	pkts, whole := packetProgram(nil)
	other := &ir.Map{Name: "other", Kind: ir.MapPerf, Value: ir.Uint64Type()}
	pos := ir.Pos{File: "x.bt", Line: 3, Col: 7}
	stmt := func(m *ir.Map, skb, most *ir.Expr) *ir.Program {
		return one(&ir.Stmt{Op: ir.StmtPacket, Map: m, Key: skb, X: most, Pos: pos})
	}
	arg := &ir.Expr{Op: ir.OpArg}
	raw := rawPlan("6.12.0", "amd64", &btf.Pointer{Target: skbType()})
	proprietary := *whole
	proprietary.License = "Proprietary"
	for _, c := range []struct {
		name        string
		p           *ir.Program
		plan        *probe.Plan
		want        string
		unsupported bool
	}{
		{"kind", whole, raw, "x.bt:3: packet @pkts[arg0]: ", true},
		{"kindhint", whole, raw, "PreferBTF", true},
		{"kernel", whole, packetPlan("5.4.0", "amd64"), "5.5", true},
		{"type", stmt(pkts, &ir.Expr{Op: ir.OpArg, Int: 1}, nil), nil, "x.bt:3:7: packet @pkts[arg1]: s32 is not a pointer to the kernel's struct sk_buff", false},
		{"map", stmt(other, arg, nil), nil, "not that of a Packets", false},
		{"nomap", stmt(nil, arg, nil), nil, "not that of a Packets", false},
		{"noskb", stmt(pkts, nil, nil), nil, "missing expression", false},
		{"length", stmt(pkts, arg, ir.NewConst(-1)), nil, "a packet of -1 bytes", false},
		{"text", stmt(pkts, arg, ir.NewString("x")), nil, "not a number", false},
		{"found", stmt(pkts, &ir.Expr{Op: ir.OpMember, Str: "next", Args: []*ir.Expr{arg}}, nil), nil, "argument of the probe", false},
		{"licence", &proprietary, nil, "GPL", false},
	} {
		if c.plan == nil {
			c.plan = packetPlan("6.12.0", "amd64")
		}
		_, err := bpf.Compile(c.p, c.plan)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, errors.ErrUnsupported) != c.unsupported {
			t.Errorf("%s: %v; want %s", c.name, err, c.want)
		}
	}
}
