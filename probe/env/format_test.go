package env_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/probetest"
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
			if size, err := btf.Sizeof(fd.BTFType()); err != nil || size > 1<<16 {
				t.Fatalf("%+v: its type takes %d bytes, %v", fd, size, err)
			}
		}
	})
}
