package perfring

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// builder writes records in the kernel's layout.
type builder []byte

func (b builder) u16(v ...uint16) builder {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint16(b, x)
	}
	return b
}

func (b builder) u32(v ...uint32) builder {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}

func (b builder) u64(v ...uint64) builder {
	for _, x := range v {
		b = binary.NativeEndian.AppendUint64(b, x)
	}
	return b
}

func (b builder) str(s string) builder {
	b = append(append(b, s...), 0)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

func TestDecodeRecords(t *testing.T) {
	f := Format{SampleIDAll: true, SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier}
	id := func(b builder) builder { return b.u32(10, 11).u64(12345).u32(3, 0).u64(77) }
	ids := SampleID{PID: 10, TID: 11, Time: 12345, CPU: 3, ID: 77}
	for _, tt := range []struct {
		name string
		raw  Raw
		want Record
	}{
		{
			"comm",
			Raw{Type: TypeComm, Misc: MiscCommExec, Data: builder{}.u32(1, 2).str("bash")},
			Record{Comm: Comm{1, 2, "bash", true}},
		},
		{"fork", Raw{Type: TypeFork, Data: builder{}.u32(1, 2, 3, 4).u64(5)}, Record{Task: Task{1, 2, 3, 4, 5}}},
		{"exit", Raw{Type: TypeExit, Data: builder{}.u32(1, 2, 3, 4).u64(5)}, Record{Task: Task{1, 2, 3, 4, 5}}},
		{
			"mmap",
			Raw{Type: TypeMmap, Data: builder{}.u32(1, 2).u64(3, 4, 5).str("/bin/x")},
			Record{Mmap: Mmap{PID: 1, TID: 2, Addr: 3, Len: 4, PageOff: 5, Path: "/bin/x"}},
		},
		{
			"mmap2",
			Raw{Type: TypeMmap2, Data: builder{}.u32(1, 2).u64(3, 4, 5).u32(8, 1).u64(99, 7).u32(5, 2).str("/bin/x")},
			Record{Mmap: Mmap{PID: 1, TID: 2, Addr: 3, Len: 4, PageOff: 5, Major: 8, Minor: 1, Inode: 99, InodeGen: 7, Protection: 5, MFlags: 2, Path: "/bin/x"}},
		},
		{
			"mmap2 build-id",
			Raw{
				Type: TypeMmap2, Misc: MiscMmapBuildID,
				Data: append(builder{}.u32(1, 2).u64(3, 4, 5), append([]byte{20, 0, 0, 0}, builder(strings.Repeat("b", 20)).u32(5, 2).str("/bin/x")...)...),
			},
			Record{Mmap: Mmap{PID: 1, TID: 2, Addr: 3, Len: 4, PageOff: 5, BuildID: []byte(strings.Repeat("b", 20)), Protection: 5, MFlags: 2, Path: "/bin/x"}},
		},
		{
			"ksymbol",
			Raw{Type: TypeKsymbol, Data: builder{}.u64(0xffff).u32(64).u16(1, 1).str("bpf_prog_x")},
			Record{Ksymbol: Ksymbol{0xffff, 64, 1, true, "bpf_prog_x"}},
		},
		{
			"bpf",
			Raw{Type: TypeBPFEvent, Data: append(builder{}.u16(1, 0).u32(42), "abcdefgh"...)},
			Record{BPF: BPFEvent{Kind: 1, ID: 42, Tag: [8]byte([]byte("abcdefgh"))}},
		},
		{"switch", Raw{Type: TypeSwitchCPUWide, Misc: MiscSwitchOut, Data: builder{}.u32(5, 6)}, Record{Switch: Switch{5, 6}}},
		{"lost", Raw{Type: TypeLost, Data: builder{}.u64(9, 100)}, Record{Lost: Lost{9, 100}}},
		{"lost samples", Raw{Type: TypeLostSamples, Data: builder{}.u64(100)}, Record{Lost: Lost{0, 100}}},
		{"throttle", Raw{Type: TypeThrottle, Data: builder{}.u64(1, 2, 3)}, Record{Rate: Rate{1, 2, 3}}},
		{"cgroup", Raw{Type: TypeCgroup, Data: builder{}.u64(1).str("/a")}, Record{Cgroup: Cgroup{1, "/a"}}},
		{"unknown", Raw{Type: 99, Data: builder{}.u64(1)}, Record{}},
	} {
		tt.raw.Data = id(tt.raw.Data)
		tt.want.Type, tt.want.Misc, tt.want.ID = tt.raw.Type, tt.raw.Misc, ids
		var got Record
		if err := f.Decode(&tt.raw, &got); err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\n got %+v (%v)\nwant %+v", tt.name, got, err, tt.want)
		}
		if tt.raw.Type == 99 {
			continue
		}
		tt.raw.Data = tt.raw.Data[:4]
		if err := f.Decode(&tt.raw, &got); !errors.Is(err, errShort) {
			t.Errorf("%s cut short: %v", tt.name, err)
		}
	}
}

func TestDecodeSample(t *testing.T) {
	f := Format{
		SampleType: sampleUnknown - 1 - SampleWeightStruct,
		ReadFormat: FormatEnabled | FormatRunning | FormatID | FormatGroup | FormatLost,
		RegsUser:   0b1011, RegsIntr: 0b1, BranchSampleType: branchHWIndex | branchCounters,
	}
	b := builder{}.u64(77, 0x1000).u32(10, 11).u64(12345, 0xadd4, 77, 78).u32(3, 0).u64(1000)
	b = b.u64(2, 500, 400, 1, 77, 0, 2, 78, 9) // group read
	b = b.u64(2, 0xc1, 0xc2)                   // call chain
	b = append(b.u32(4), "rawd"...)
	b = b.u64(1, 5, 0xf, 0x7, 1, 42)    // branches
	b = b.u64(2, 1, 2, 3)               // user registers
	b = append(b.u64(8), "stackcpy"...) // user stack
	b = b.u64(5)                        // of which 5 are valid
	b = b.u64(6, 7, 8)                  // weight, data source, transaction
	b = b.u64(1, 9)                     // interrupted registers
	b = b.u64(20, 21, 22, 23)           // physical address, cgroup, page sizes
	b = append(b.u64(8), "auxauxau"...) // aux
	raw := Raw{Type: TypeSample, Misc: MiscUser | MiscExactIP, Data: b}
	want := Sample{
		IP: 0x1000, PID: 10, TID: 11, Time: 12345, Addr: 0xadd4, ID: 77, StreamID: 78, CPU: 3, Period: 1000,
		Enabled: 500, Running: 400, Read: []ReadValue{{1, 77, 0}, {2, 78, 9}},
		Callchain: []uint64{0xc1, 0xc2}, Raw: []byte("rawd"),
		Branches: []Branch{{0xf, 0x7, 1}}, BranchIndex: 5, BranchCounters: []uint64{42},
		UserABI: 2, UserRegs: []uint64{1, 2, 3}, UserStack: []byte("stack"),
		Weight: 6, DataSrc: 7, Transaction: 8, IntrABI: 1, IntrRegs: []uint64{9},
		PhysAddr: 20, Cgroup: 21, DataPageSize: 22, CodePageSize: 23, Aux: []byte("auxauxau"),
	}
	var rec Record
	if err := f.Decode(&raw, &rec); err != nil || !reflect.DeepEqual(rec.Sample, want) {
		t.Errorf("got %+v (%v)\nwant %+v", rec.Sample, err, want)
	}
	for n := range b {
		raw.Data = b[:n]
		if err := f.Decode(&raw, &rec); !errors.Is(err, errShort) {
			t.Fatalf("cut to %d of %d bytes: %v", n, len(b), err)
		}
	}
	f.SampleType |= sampleUnknown
	raw.Data = b
	if err := f.Decode(&raw, &rec); err == nil {
		t.Error("an unknown sample type was decoded")
	}
}

// FuzzDecode: no record makes more than it holds, whatever its lengths say.
func FuzzDecode(f *testing.F) {
	f.Add(uint32(TypeSample), uint16(0), uint64(sampleUnknown-1), uint64(31), uint64(1<<17|1<<19), uint64(7), true, []byte(builder{}.u64(1, 2, 3, 4, 5, 6, 7)))
	f.Add(uint32(TypeMmap2), uint16(MiscMmapBuildID), uint64(0), uint64(0), uint64(0), uint64(0), true, make([]byte, 80))
	f.Add(uint32(TypeKsymbol), uint16(0), uint64(0), uint64(0), uint64(0), uint64(0), false, make([]byte, 32))
	f.Fuzz(func(t *testing.T, typ uint32, misc uint16, st, rf, branch, regs uint64, all bool, data []byte) {
		fm := Format{SampleType: st, ReadFormat: rf, BranchSampleType: branch, RegsUser: regs, RegsIntr: regs, SampleIDAll: all}
		var rec Record
		err := fm.Decode(&Raw{Type: typ, Misc: misc, Data: data}, &rec)
		s := &rec.Sample
		words := len(s.Callchain) + len(s.Read) + 3*len(s.Branches) + len(s.BranchCounters) + len(s.UserRegs) + len(s.IntrRegs)
		if 8*words+len(s.Raw)+len(s.UserStack)+len(s.Aux) > len(data) {
			t.Fatalf("%d bytes made %+v (%v)", len(data), s, err)
		}
		if len(rec.Comm.Name)+len(rec.Mmap.Path)+len(rec.Ksymbol.Name)+len(rec.Cgroup.Path) > len(data) {
			t.Fatalf("strings longer than the record: %+v", rec)
		}
	})
}
