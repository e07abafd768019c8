package probe

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/insn"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/probetest"
	"github.com/borescope/borescope/probe/internal/usercode"
	"github.com/borescope/borescope/probe/internal/userfile"
)

func TestParseFormat(t *testing.T) {
	f, err := env.ParseFormat(strings.NewReader(probetest.Format))
	if err != nil {
		t.Fatal(err)
	}
	want := []env.Field{
		{Name: "common_type", Type: "unsigned short", Elems: -1, Size: 2, Common: true},
		{Name: "common_pid", Type: "int", Elems: -1, Offset: 4, Size: 4, Signed: true, Common: true},
		{Name: "prev_comm", Type: "char", Elems: 16, Offset: 8, Size: 16},
		{Name: "prev_pid", Type: "pid_t", Elems: -1, Offset: 24, Size: 4, Signed: true},
		{Name: "cmd", Type: "char", Elems: 0, Offset: 28, Size: 4, DataLoc: true},
	}
	if f.Name != "sched_switch" || f.ID != 310 || !reflect.DeepEqual(f.Fields, want) || f.Print != `"prev_comm=%s", REC->prev_comm` {
		t.Errorf("got %+v", f)
	}
	for text, want := range map[string]string{
		"":                          "tracepoint format: it names no event, or no ID",
		"name: x\nID: y\n":          `tracepoint format:2: bad ID "y"`,
		"name: x\nID: 1\n\tfield:a": `tracepoint format:3: bad field "a": no name`,
		"name: x\n\tfield:int a;\toffset:-1;\tsize:4;\n":    `tracepoint format:2: bad offset "-1": not within 0 to 65536`,
		"name: x\n\tfield:int a;\toffset:0;\tsize:99999;\n": `tracepoint format:2: bad size "99999": not within 0 to 65536`,
		"name: x\n\tfield:int a;\toffset:0;\n":              `tracepoint format:2: want field, offset and size in "field:int a;\toffset:0;"`,
	} {
		if _, err := env.ParseFormat(strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// parseField reads a line of a format.
func parseField(line string) (env.Field, error) {
	f, err := env.ParseFormat(strings.NewReader("name: x\nID: 1\n\t" + line + "\n"))
	if err != nil || len(f.Fields) != 1 {
		return env.Field{}, err
	}
	return f.Fields[0], nil
}

// TestFieldTypes: what C declarations of format files become.
func TestFieldTypes(t *testing.T) {
	for _, c := range []struct {
		field, group string
		want         string
		size         int
	}{
		{"field:char comm[16];\toffset:8;\tsize:16;\tsigned:0;", "x", "char comm[16] @ ctx+8", 16},
		{"field:u8 mac[6];\toffset:8;\tsize:6;\tsigned:0;", "x", "u8 mac[6] @ ctx+8", 6},
		{"field:unsigned long args[6];\toffset:8;\tsize:48;\tsigned:0;", "x", "unsigned long args[6] @ ctx+8", 48},
		{"field:__data_loc u64[] v;\toffset:8;\tsize:4;\tsigned:0;", "x", "u64 v[] @ data_loc@8", 4},
		{"field:__rel_loc char[] v;\toffset:8;\tsize:4;\tsigned:0;", "x", "char v[] @ rel_loc@8", 4},
		{"field:const struct iovec * v;\toffset:8;\tsize:8;\tsigned:0;", "syscalls", "const struct iovec *v @ ctx+8 (user)", 8},
		{"field:const char *const * argv;\toffset:8;\tsize:8;\tsigned:0;", "syscalls", "const char *const *argv @ ctx+8 (user)", 8},
		{"field:int fd;\toffset:16;\tsize:8;\tsigned:0;", "syscalls", "int fd @ ctx+16", 4},
		{"field:enum zone_type z;\toffset:16;\tsize:4;\tsigned:0;", "x", "enum zone_type z @ ctx+16", 4},
		{"field:bool b;\toffset:16;\tsize:1;\tsigned:0;", "x", "bool b @ ctx+16", 1},
		{"field:char name[MAX_LEN];\toffset:8;\tsize:32;\tsigned:0;", "x", "char name[32] @ ctx+8", 32},
	} {
		f, err := parseField(c.field)
		if err != nil {
			t.Errorf("%s: %v", c.field, err)
			continue
		}
		a := fieldArg(&f, c.group)
		if a.String() != c.want || a.Loc.Size != c.size {
			t.Errorf("%s: got %s, %d bytes, want %s, %d", c.field, a, a.Loc.Size, c.want, c.size)
		}
	}
	f, _ := parseField("field:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;")
	a := fieldArg(&f, "x")
	if i, ok := a.Type.(*btf.Int); !ok || i.Encoding != btf.Signed || i.Size != 4 {
		t.Errorf("pid_t is %v", a.Type)
	}
}

// TestLiveFormats reads every format file of this machine.
func TestLiveFormats(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Tracefs)
	files, err := filepath.Glob(testenv.TracefsDir(t) + "/events/*/*/format")
	if err != nil || len(files) < 100 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := env.ParseFormat(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := bytes.Count(b, []byte("\tfield:")); n != len(f.Fields) || f.Name != filepath.Base(filepath.Dir(name)) {
			t.Errorf("%s: %s with %d fields of %d", name, f.Name, len(f.Fields), n)
		}
		for i := range f.Fields {
			a := fieldArg(&f.Fields[i], "x")
			if size, err := btf.Sizeof(a.Type); err != nil || a.Loc.Kind == LocationContext && size != a.Loc.Size {
				t.Errorf("%s: %s has %d bytes, its type %d (%v)", name, a, a.Loc.Size, size, err)
			}
		}
	}
}

func FuzzParseFormat(f *testing.F) {
	f.Add(probetest.Format)
	f.Add(probetest.SyscallFormat)
	f.Fuzz(func(t *testing.T, text string) {
		format, err := env.ParseFormat(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range format.Fields {
			fd := &format.Fields[i]
			if fd.Name == "" || fd.Offset < 0 || fd.Offset > 1<<16 || fd.Size < 0 || fd.Size > 1<<16 {
				t.Fatalf("%+v", fd)
			}
			_ = fieldArg(fd, "syscalls").String()
		}
	})
}

// TestLdCache compares with ldconfig -p.
func TestLdCache(t *testing.T) {
	testenv.Need(t, testenv.Tool("ldconfig"), testenv.File("/etc/ld.so.cache"))
	out, err := testenv.Command(t, "ldconfig", "-p").Output()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("/etc/ld.so.cache")
	if err != nil {
		t.Fatal(err)
	}
	flags, word := userfile.LdFlags["amd64"], "libc6,x86-64"
	if strings.Contains(string(out), "libc6,AArch64") {
		flags, word = userfile.LdFlags["arm64"], "libc6,AArch64"
	}
	var want, got []string
	for line := range strings.Lines(string(out)) {
		// "\tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1"
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " (")
		kind, file, ok2 := strings.Cut(rest, ") => ")
		if ok && ok2 && kind == word {
			want = append(want, name+" "+file)
		}
	}
	for soname, path := range userfile.LdCache(b, flags) {
		got = append(got, string(soname)+" "+string(path))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d entries, ldconfig has %d", len(got), len(want))
	}
}

func FuzzLdCache(f *testing.F) {
	if b, err := os.ReadFile("/etc/ld.so.cache"); err == nil && len(b) < 1<<20 {
		f.Add(b[:min(len(b), 4096)])
	}
	f.Add([]byte("glibc-ld.so.cache1.1" + strings.Repeat("\x01", 60)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for soname, path := range userfile.LdCache(b, userfile.LdFlags["amd64"]) {
			if !bytes.Contains(b, soname) || !bytes.Contains(b, path) || len(soname) == 0 || len(path) == 0 {
				t.Fatalf("%q, %q is not in the file", soname, path)
			}
		}
	})
}

// TestReturns compares with objdump: the return instructions of libc.
func TestReturns(t *testing.T) {
	testenv.Need(t, testenv.Tool("objdump"))
	path := probetest.TargetPath()
	out, err := testenv.Command(t, "objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{}
	name := ""
	for line := range strings.Lines(string(out)) {
		if i := strings.IndexByte(line, '<'); i > 0 && strings.HasSuffix(strings.TrimSpace(line), ">:") {
			name = strings.TrimSuffix(strings.TrimSpace(line[i+1:]), ">:")
		}
		f := strings.Fields(line)
		if len(f) > 1 && (f[1] == "ret" || f[1] == "retq") {
			want[name]++
		}
	}
	checkReturns(t, path, want)
}

func TestBoundary(t *testing.T) {
	env := probetest.Env(t)
	for offset, want := range map[uint64]string{
		0: "", 3: "", 1: "offset 1 lies within the instruction of 3 bytes at +0",
		4096: "lies in no loaded segment",
	} {
		_, err := Resolve(env, []Target{Uprobe{Path: "/bin/target", Symbol: "add", Offset: offset}}, nil)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("add+%d: %v", offset, err)
		}
	}
}

func checkReturns(t *testing.T, path string, want map[string]int) {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = userfile.WithELF(NewEnv(nil), userfile.Sources{}, abs, func(f *elffile.File) error {
		return userfile.Symbols(t.Context(), f, func([]byte) bool { return true }, func(s userfile.Symbol) error {
			text, err := userfile.Code(f, s.Value, s.Size)
			if err != nil {
				return err
			}
			rets, err := usercode.Returns(f.Machine, text)
			if err != nil {
				return err
			}
			if len(rets) != want[s.Name] {
				t.Errorf("%s returns at %v, objdump has %d", s.Name, rets, want[s.Name])
			}
			seen++
			return nil
		})
	})
	if err != nil || seen < 5 {
		t.Errorf("%d functions, %v", seen, err)
	}
}

// TestInsnLengths walks all functions of libc, and compares where instructions
// begin and which return with objdump.
func TestInsnLengths(t *testing.T) {
	testenv.Need(t, testenv.Tool("objdump"))
	env := NewEnv(nil)
	path, err := userfile.FindByName(env, "libc.so.6", 0)
	if err != nil {
		t.Skip(testenv.SkipPrefix + "libc: " + err.Error())
	}
	out, err := testenv.Command(t, "objdump", "-d", "--no-show-raw-insn", path).Output()
	if err != nil {
		t.Skip(testenv.SkipPrefix + "objdump: " + err.Error())
	}
	begins := map[uint64]bool{} // and whether it returns
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasSuffix(f[0], ":") {
			continue
		}
		if addr, err := strconv.ParseUint(strings.TrimSuffix(f[0], ":"), 16, 64); err == nil {
			begins[addr] = f[1] == "ret" || len(f) > 2 && f[2] == "ret"
		}
	}
	functions := 0
	err = userfile.WithELF(env, userfile.Sources{}, path, func(f *elffile.File) error {
		return userfile.Symbols(t.Context(), f, func([]byte) bool { return true }, func(s userfile.Symbol) error {
			text, err := userfile.Code(f, s.Value, s.Size)
			if err != nil {
				return nil
			}
			functions++
			for off := 0; off < len(text); {
				isRet, ok := begins[s.Value+uint64(off)]
				in, err := insn.Decode(f.Machine, text[off:])
				switch {
				case err != nil:
					t.Errorf("%s+%d: %v", s.Name, off, err)
					return nil
				case !ok || in.Ret != isRet:
					t.Errorf("%s+%d: % x: begins %v, returns %v; objdump says %v", s.Name, off, text[off:min(off+8, len(text))], ok, in.Ret, isRet)
					return nil
				}
				off += in.Len
			}
			return nil
		})
	})
	if err != nil || functions < 1000 {
		t.Errorf("%d functions, %v", functions, err)
	}
	err = userfile.WithELF(env, userfile.Sources{}, path, func(f *elffile.File) error {
		checkBoundaries(t, &usercode.Boundaries{Ctx: t.Context(), F: f}, begins)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// checkBoundaries asks of a part of a file's addresses whether an instruction begins
// there, and a byte further: of functions that nothing but the code tells of, there
// is no answer.
func checkBoundaries(t *testing.T, b *usercode.Boundaries, begins map[uint64]bool) {
	t.Helper()
	const each = 37
	yes, no := 0, 0
	for i, addr := range slices.Sorted(maps.Keys(begins)) {
		if i%each != 0 {
			continue
		}
		err := b.Check(addr)
		if err == nil {
			yes++
		} else if !strings.Contains(err.Error(), "in no function") {
			t.Errorf("%#x, where an instruction begins: %v", addr, err)
		}
		if _, ok := begins[addr+1]; ok {
			continue
		}
		if no++; b.Check(addr+1) == nil {
			t.Errorf("%#x is taken for an instruction", addr+1)
		}
	}
	if yes < len(begins)/each/2 || no == 0 {
		t.Errorf("of %d instructions every %dth: %d are told, %d within them", len(begins), each, yes, no)
	}
}
