package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
)

var update = flag.Bool("update", false, "rewrite golden files")

func write(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// program has a note of each kind that files have.
func program() []byte {
	f := &elfbuild.File{Machine: elf.EM_X86_64}
	stapsdt := bytes.Join([][]byte{f.Word(0x1000), f.Word(0x2000), f.Word(0), []byte("app\x00request\x008@%rdi\x00")}, nil)
	section := func(name, owner string, typ uint32, desc string, align int) elfbuild.Section {
		return elfbuild.Section{Name: name, Type: elf.SHT_NOTE, Align: uint64(align), Data: elfnotes.Append(nil, elfnotes.Note{Owner: owner, Type: typ, Desc: []byte(desc)}, align)}
	}
	f.Sections = []elfbuild.Section{
		section(".note.gnu.property", "GNU", 5, "\x02\x00\x00\xc0\x04\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00", 8),
		section(".note.gnu.build-id", "GNU", 3, "0123456789abcdefghij", 4),
		section(".note.ABI-tag", "GNU", 1, "\x00\x00\x00\x00\x03\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00", 4),
		section(".note.stapsdt", "stapsdt", 3, string(stapsdt), 4),
		section(".note.package", "FDO", 0xcafe1a7e, `{"type":"deb","name":"app"}`+"\x00", 4),
		section(".note.go.buildid", "Go", 4, "abc/def", 4),
		section(".note.other", "FRRouting", 1178948184, "\x01\x02", 4),
		section(".note.bad", "GNU", 1, "\x00", 4),
	}
	return f.Bytes()
}

func TestGolden(t *testing.T) {
	path := write(t, "app", program())
	kernel := elfnotes.Append(nil, elfnotes.Note{Owner: "Linux", Type: 0x101, Desc: []byte{0, 0, 0, 0}, Order: binary.NativeEndian}, 4)
	raw := write(t, "notes", kernel)
	for name, args := range map[string][]string{"notes.txt": {path, raw}, "notes.json": {"-json", path, raw}} {
		var out bytes.Buffer
		if err := run(t.Context(), args, cli.NewOutput(&out)); err != nil {
			t.Fatal(err)
		}
		got := strings.NewReplacer(path, "/bin/app", raw, "/sys/kernel/notes").Replace(out.String())
		golden := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
		}
	}
}

func TestErrors(t *testing.T) {
	b := program()
	cut := write(t, "cut", b[:len(b)/2])
	for _, args := range [][]string{{}, {"/nonexistent"}, {cut}, {write(t, "garbage", []byte("no notes at all"))}} {
		if err := run(t.Context(), args, cli.NewOutput(&bytes.Buffer{})); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	// One bad file doesn't hide the next.
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-json", "/nonexistent", write(t, "app", b)}, cli.NewOutput(&out)); err == nil {
		t.Error("no error")
	}
	n := 0
	for dec := json.NewDecoder(&out); dec.More(); n++ {
		var l struct{ File, Where, Owner, Kind string }
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
	}
	if n != 8 {
		t.Errorf("%d notes", n)
	}
}

func TestThisMachine(t *testing.T) {
	testenv.Need(t, testenv.File("/sys/kernel/notes"))
	var out bytes.Buffer
	if err := run(t.Context(), []string{"/sys/kernel/notes"}, cli.NewOutput(&out)); err != nil || !strings.Contains(out.String(), "raw+0x0:") {
		t.Errorf("%v: %q", err, out.String())
	}
}

// TestHelp: -h says what the program is for, and shows how.
func TestHelp(t *testing.T) {
	var out bytes.Buffer
	err := run(t.Context(), []string{"-h"}, cli.NewOutput(&out))
	if !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(out.String(), "Usage: elfnotes ") || strings.Count(out.String(), "\n  elfnotes ") < 2 {
		t.Errorf("%v, %q", err, out.String())
	}
}
