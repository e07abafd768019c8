package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/env"
)

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
