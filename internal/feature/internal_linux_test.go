package feature

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/rawbtf"
)

// expected is what was found out about Debian's kernels by attaching for real
// (not by these probes): what may be there or not by kernel and architecture.
// The rest follows from Since.
var expected = map[string]map[Feature]State{
	"5.10 amd64": {Kprobe: Yes, KprobeMulti: No, Fentry: Yes, Fexit: Yes, TPBTF: Yes, Fsession: No, TracingMulti: No, HardwarePMU: No},
	"6.1 amd64":  {Kprobe: Yes, KprobeMulti: No, Fentry: Yes, Fexit: Yes, TPBTF: Yes, Fsession: No, TracingMulti: No, HardwarePMU: No},
	"6.12 amd64": {Kprobe: Yes, KprobeMulti: Yes, Fentry: Yes, Fexit: Yes, TPBTF: Yes, Fsession: No, TracingMulti: No, HardwarePMU: No},
	"6.18 amd64": {Kprobe: Yes, KprobeMulti: Yes, Fentry: Yes, Fexit: Yes, TPBTF: Yes, Fsession: No, TracingMulti: No, HardwarePMU: No},
	"7.2 amd64":  {Kprobe: Yes, KprobeMulti: Yes, Fentry: Yes, Fexit: Yes, TPBTF: Yes, Fsession: Yes, TracingMulti: Yes, HardwarePMU: No},
	"6.1 arm64":  {Kprobe: Yes, KprobeMulti: No, Fentry: No, Fexit: No, HardwarePMU: Yes},
	"6.12 arm64": {Kprobe: Yes, KprobeMulti: No, Fentry: Yes, Fexit: Yes, Fsession: No, TracingMulti: No, HardwarePMU: Yes},
}

// TestGuestsAreAsKnown compares the probes with what is known of the guests:
// the table above, and the versions for the features that no option governs.
func TestGuestsAreAsKnown(t *testing.T) {
	version := os.Getenv("BORESCOPE_GUEST")
	if version == "" {
		t.Skip("SKIP-NEED: guest: not in a guest of internal/vmtest")
	}
	known, ok := expected[version+" "+goarch()]
	if !ok {
		t.Fatalf("nothing is known of %s %s", version, goarch())
	}
	set := Record()
	for f, want := range known {
		if got := set[f.String()]; got.State != want {
			t.Errorf("%v: %v, want %v", f, got, want)
		}
	}
	for _, f := range All() {
		if len(specs[f].config) > 0 || f.Since() == "" {
			continue
		}
		want := No
		if KernelAtLeast(f.Since()) {
			want = Yes
		}
		if got := set[f.String()]; got.State != want {
			t.Errorf("%v (since %s): %v", f, f.Since(), got)
		}
	}
}

func goarch() string {
	var u unix.Utsname
	unix.Uname(&u)
	if unix.ByteSliceToString(u.Machine[:]) == "aarch64" {
		return "arm64"
	}
	return "amd64"
}

func TestVersion(t *testing.T) {
	for _, c := range []struct {
		a, b string
		less bool
	}{
		{"5.10.0-32-cloud-amd64", "5.15", true},
		{"5.15.1", "5.15", false},
		{"6.1.0-50", "5.15", false},
		{"6.12.107+deb13", "6.12", false},
		{"7.2-rc1", "7.10", true},
		{"7", "7.1", true},
		{"", "2.6", true},
	} {
		a, _ := ParseVersion(c.a)
		b, _ := ParseVersion(c.b)
		if got := a.Before(b); got != c.less {
			t.Errorf("%q before %q: %v", c.a, c.b, got)
		}
	}
}

func TestFindOption(t *testing.T) {
	const config = "# CONFIG_KPROBES is not set\nCONFIG_BPF=y\nCONFIG_BPF_JIT=m\nCONFIG_LSM=\"a,b\"\n"
	for option, want := range map[string]string{
		"KPROBES": "", "BPF": "y", "BPF_JIT": "m", "LSM": "a,b", "BPF_": "",
	} {
		got, err := findOption(strings.NewReader(config), option)
		if got != want || err != nil {
			t.Errorf("%s = %q, %v; want %q", option, got, err, want)
		}
	}
}

// TestDenied pins who is blamed for a refusal.
func TestDenied(t *testing.T) {
	var no *UnsupportedError
	var dunno *UnknownError
	err := denied(Ringbuf, unix.EPERM)
	privileged := len(MissingCaps(CapBPF, CapPerfmon)) == 0
	if privileged && !errors.As(err, &no) && !memlockCounts() {
		t.Errorf("with all capabilities: %v", err)
	}
	if !privileged && (!errors.As(err, &dunno) || !strings.Contains(dunno.Hint, "CAP_BPF")) {
		t.Errorf("without capabilities: %v", err)
	}
	if !errors.Is(err, os.ErrPermission) {
		t.Errorf("%v does not match os.ErrPermission", err)
	}
}

// btf builds a BTF blob of an int, a struct with two members, a typedef and a
// function, all but the int called "x".
func btf() []byte {
	strs := []byte("\x00int\x00xx\x00x\x00")
	var types bytes.Buffer
	u := func(vs ...uint32) {
		for _, v := range vs {
			binary.Write(&types, binary.NativeEndian, v)
		}
	}
	u(1, 1<<24, 4, 32)                  // 1: int
	u(8, 4<<24|2, 8, 1, 1, 0, 5, 1, 32) // 2: struct x
	u(8, rawbtf.Typedef<<24, 1)         // 3: typedef x
	u(8, rawbtf.Func<<24, 4)            // 4: func x
	u(0, 13<<24|1, 1, 8, 1)             // 5: func_proto
	u(5, 19<<24|2, 8, 0, 1, 0, 1, 2, 0) // 6: enum64 xx
	u(5, rawbtf.Func<<24, 5)            // 7: func xx
	var b bytes.Buffer
	binary.Write(&b, binary.NativeEndian, btfHeader{
		Magic: 0xeb9f, Version: 1, HdrLen: 24,
		TypeLen: uint32(types.Len()), StrOff: uint32(types.Len()), StrLen: uint32(len(strs)),
	})
	b.Write(types.Bytes())
	b.Write(strs)
	return b.Bytes()
}

func TestFindBTF(t *testing.T) {
	r := bytes.NewReader(btf())
	for _, c := range []struct {
		kind uint32
		name string
		id   uint32
	}{{rawbtf.Typedef, "x", 3}, {rawbtf.Func, "x", 4}, {rawbtf.Func, "xx", 7}, {1, "int", 1}} {
		id, err := findBTF(r, c.kind, c.name)
		if id != c.id || err != nil {
			t.Errorf("kind %d %q: %d, %v; want %d", c.kind, c.name, id, err, c.id)
		}
	}
	for _, name := range []string{"y", "nt", ""} {
		if id, err := findBTF(r, rawbtf.Func, name); !errors.Is(err, errNoBTFType) {
			t.Errorf("%q: %d, %v", name, id, err)
		}
	}
}

// FuzzFindBTF: whatever the bytes, an answer in the size of the input.
func FuzzFindBTF(f *testing.F) {
	f.Add(btf())
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := findBTF(bytes.NewReader(b), rawbtf.Func, "x")
		if err == nil && (id == 0 || int(id) > len(b)/12) {
			t.Errorf("type %d in %d bytes", id, len(b))
		}
	})
}

// TestParanoidHint: level 3 is a cause of its own, whatever else is held.
func TestParanoidHint(t *testing.T) {
	for _, c := range []struct {
		level int
		admin bool
		err   error
		want  bool
	}{
		{3, false, unix.EACCES, true},
		{4, false, unix.EACCES, true},
		{3, true, unix.EACCES, false},
		{3, false, unix.EPERM, false},
		{2, false, unix.EACCES, false},
	} {
		if got := paranoidHint(c.level, c.admin, c.err); (got != "") != c.want || c.want && !strings.Contains(got, "kernel.perf_event_paranoid is ") {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
