package main

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/meter"
	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/usdt"
)

var cross = flag.Bool("cross", false, "build for the other architecture too")

const wantProbes = "prog:request -8@%rdi 8@%rsi -8@%rdx\nprog:reply -4@%edi\n"

// build builds the test program for a machine.
func build(t *testing.T, goarch string, flags ...string) string {
	t.Helper()
	testenv.Need(t, testenv.Go)
	exe := filepath.Join(t.TempDir(), "prog")
	cmd := testenv.Command(t, "go", append(append([]string{"build", "-o", exe}, flags...), "../../static/testdata/prog")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+goarch, "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return exe
}

func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Logf("%s is not installed", name)
		return ""
	}
	var stderr bytes.Buffer
	cmd := testenv.Command(t, name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || name == "readelf" && stderr.Len() > 0 {
		t.Errorf("%s %v: %v %s", name, args, err, &stderr)
	}
	return string(out)
}

func TestLink(t *testing.T) {
	tests := []struct {
		name, goarch string
		flags        []string
	}{
		{"exe", "amd64", nil},
		{"pie", "amd64", []string{"-buildmode=pie"}},
		{"stripped-pie", "amd64", []string{"-buildmode=pie", "-ldflags=-s -w"}},
		{"arm64", "arm64", []string{"-buildmode=pie"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.goarch != runtime.GOARCH && !*cross {
				testenv.Need(t, testenv.Missing("-cross", "not given: the standard library would be built"))
			}
			exe := build(t, test.goarch, test.flags...)
			before := tool(t, "go", "version", "-m", exe)
			id := tool(t, "go", "tool", "buildid", exe)
			var out bytes.Buffer
			if err := run(t.Context(), []string{exe}, cli.NewOutput(&out)); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); test.goarch == "amd64" && got != wantProbes {
				t.Errorf("printed %q", got)
			}
			if tool(t, "go", "version", "-m", exe) != before || tool(t, "go", "tool", "buildid", exe) != id {
				t.Error("build information changed")
			}
			f, err := usdt.Open(exe)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			sites, err := f.Sites()
			if err != nil || len(sites) != 2 {
				t.Fatalf("%v, %v", sites, err)
			}
			b, err := os.ReadFile(exe)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sites {
				if s.Err != nil || s.Nop != "nop" || s.Semaphore == 0 || binary.LittleEndian.Uint32(b[s.SemaphoreOffset:]) != 0 {
					t.Errorf("%+v", s)
				}
			}
			if notes := tool(t, "readelf", "-nW", exe); notes != "" && !strings.Contains(notes, "Name: request") {
				t.Errorf("readelf: %s", notes)
			}
			tool(t, "readelf", "-aW", exe)
			if list := tool(t, "gdb", "-nx", "-batch", "-ex", "info probes stap prog", exe); list != "" && test.goarch == runtime.GOARCH && (!strings.Contains(list, "request") || !strings.Contains(list, "reply")) {
				t.Errorf("gdb: %s", list)
			}
			if err := run(t.Context(), []string{exe}, cli.NewOutput(io.Discard)); err == nil || !strings.Contains(err.Error(), "already") {
				t.Errorf("linked twice: %v", err)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"-x"}, {"/nonexistent"}} {
		if err := run(t.Context(), args, cli.NewOutput(io.Discard)); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
	exe := build(t, runtime.GOARCH, "-gcflags=-l")
	if err := run(t.Context(), []string{exe}, cli.NewOutput(io.Discard)); err == nil || !strings.Contains(err.Error(), "inlining") {
		t.Errorf("without inlining: %v", err)
	}
	other := elfbuild.File{Machine: elf.EM_RISCV, Sections: []elfbuild.Section{{Name: ".x", Type: elf.SHT_PROGBITS}}}
	if _, _, err := link(other.Bytes()); err == nil || !strings.Contains(err.Error(), "amd64 or arm64") {
		t.Errorf("riscv64: %v", err)
	}
	if _, _, err := link((&elfbuild.File{Machine: elf.EM_X86_64, NoSections: true}).Bytes()); err == nil || !strings.Contains(err.Error(), "section headers") {
		t.Errorf("no sections: %v", err)
	}
}

// TestDamaged cuts and changes a file: no panic.
func TestDamaged(t *testing.T) {
	exe := build(t, runtime.GOARCH, "-ldflags=-s -w")
	b, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 10, 64, 1000, len(b) / 2, len(b) - 100} {
		if _, _, err := link(b[:size]); err == nil {
			t.Errorf("%d bytes are accepted", size)
		}
	}
	for at := 0; at < 1024; at += 3 {
		c := bytes.Clone(b)
		c[at] ^= 0xff
		_, _, _ = link(c)
	}
	// Every field of every probe.
	_, probes, err := link(b)
	if err != nil {
		t.Fatal(err)
	}
	mark := bytes.Index(b, binary.LittleEndian.AppendUint64(nil, 0x7b9ad2c64f11e0a3))
	for at := mark; at < mark+64*len(probes); at++ {
		c := bytes.Clone(b)
		c[at] ^= 0xff
		_, _, _ = link(c)
	}
}

// TestBombs: of any file, usdtlink takes no more memory and time than what it takes up allows.
// A hole of 6 GiB ended it.
func TestBombs(t *testing.T) {
	testenv.Need(t, testenv.Long)
	testenv.LimitMemory(t, 512<<20)
	for _, b := range elfbuild.Bombs() {
		if b.Kind != elfbuild.ELF && b.Kind != elfbuild.Kernel {
			continue
		}
		t.Run(b.Name, func(t *testing.T) {
			image, path := b.Make(), filepath.Join(t.TempDir(), "file")
			err := os.WriteFile(path, image, 0o700)
			if err == nil {
				err = os.Truncate(path, int64(len(image))+b.Hole)
			}
			if err != nil {
				t.Fatal(err)
			}
			meter.Bounded(t, len(image), func() {
				if err := run(t.Context(), []string{path}, cli.NewOutput(io.Discard)); err == nil {
					t.Error("linked")
				}
			})
		})
	}
}

// TestBpftrace traces two runs of one binary with the distribution's bpftrace,
// which is not told a process.
func TestBpftrace(t *testing.T) {
	testenv.Need(t, testenv.Long, testenv.Root, testenv.Uprobes, testenv.Tracefs, testenv.Mounts, testenv.Tool("bpftrace"), testenv.Arch("amd64", "arm64"))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.MountTracefs(t)
	for _, mode := range []string{"exe", "pie"} {
		t.Run(mode, func(t *testing.T) {
			exe := build(t, runtime.GOARCH, "-buildmode="+mode)
			if out, err := testenv.Command(t, exe, "1").Output(); err != nil || string(out) != "fired 0\n" {
				t.Errorf("not linked: %v, %q", err, out)
			}
			if err := run(t.Context(), []string{exe}, cli.NewOutput(io.Discard)); err != nil {
				t.Fatal(err)
			}
			if list := tool(t, "bpftrace", "-l", "usdt:"+exe+":*"); strings.Count(list, ":prog:re") != 2 {
				t.Errorf("bpftrace -l: %q", list)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			const script = `:prog:request { printf("%d %s %d\n", arg0, str(arg1, arg2), arg2); if (@n++ == 9) { exit(); } }`
			tracer := testenv.CommandContext(ctx, t, "bpftrace", "-e", "usdt:"+exe+script)
			var out bytes.Buffer
			tracer.Stdout = &out
			if err := tracer.Start(); err != nil {
				t.Fatal(err)
			}
			var programs []*testenv.Cmd
			for range 2 {
				p := testenv.CommandContext(ctx, t, exe, "1000000")
				if err := p.Start(); err != nil {
					t.Fatal(err)
				}
				programs = append(programs, p)
			}
			if err := tracer.Wait(); err != nil {
				t.Error(err)
			}
			for _, p := range programs {
				_ = p.Process.Kill()
				_ = p.Wait()
			}
			seen := 0
			for line := range strings.Lines(out.String()) {
				f := strings.Fields(line)
				if len(f) == 3 && f[1] == "path-"+f[0] {
					seen++
				}
			}
			if seen < 10 {
				t.Errorf("bpftrace printed %q", out.String())
			}
		})
	}
}
