package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/probe/tool/cli"
)

func TestRun(t *testing.T) {
	ip := binary.LittleEndian.AppendUint32(nil, 0x100)
	kernel := elfbuild.File{Machine: elf.EM_X86_64, Sections: []elfbuild.Section{
		{Name: ".orc_unwind_ip", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: 0x2000, Data: ip},
		{Name: ".orc_unwind", Type: elf.SHT_PROGBITS, Data: []byte{8, 0, 0, 0, 5, 2}},
	}}
	path := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(path, kernel.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{path}, cli.NewOutput(&out)); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "2100:type:call sp:sp+8 bp:(und) signal:0\n"; got != want {
		t.Errorf("got %q want %q", got, want)
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{{nil, "no file"}, {[]string{"/nonexistent"}, "no such file"}, {[]string{"main.go"}, "main.go"}, {[]string{"-x"}, "-x"}} {
		if err := run(c.args, cli.NewOutput(io.Discard)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

// TestHelp: -h says what the program is for, and shows how.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	err := run([]string{"-h"}, cli.NewOutput(&out))
	if !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(out.String(), "Usage: orcdump ") || strings.Count(out.String(), "\n  orcdump ") < 2 {
		t.Errorf("%v, %q", err, out.String())
	}
}
