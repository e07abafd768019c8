package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/tool/cli"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestCapture(t *testing.T) {
	testenv.Need(t, testenv.Root)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 8, Name: "capture_test"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Put(uint32(7), uint64(9)); err != nil {
		t.Fatal(err)
	}
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	dir := filepath.Join(t.TempDir(), "rec")
	var log bytes.Buffer
	err = run(t.Context(), []string{
		"-map", "capture_test", "-map", fmt.Sprintf("id:%d", id), "-file", "/proc/version", "-n", "3", "-i", "1ms", dir,
	}, cli.NewOutput(&log))
	if err != nil || strings.Count(log.String(), "2 entries") != 3 {
		t.Fatal(err, log.String())
	}
	rec, err := recording.Open(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	table, err := recording.ReplayTable[uint32, uint64](rec, fmt.Sprintf("id_%d", id))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s, err := table.Snapshot()
		if err != nil || len(s.Entries) != 1 || s.Entries[0] != (mapx.Entry[uint32, uint64]{Key: 7, Value: 9}) {
			t.Fatal(s, err)
		}
	}
	host, err := hostfs.Open(rec, "host")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := fs.ReadFile(host, "proc/version"); err != nil || !bytes.HasPrefix(b, []byte("Linux version ")) {
		t.Fatal(string(b), err)
	}
	if err := run(t.Context(), []string{"-map", "capture_test", dir}, cli.NewOutput(&log)); !errors.Is(err, fs.ErrExist) {
		t.Error("a directory that is not empty:", err)
	}
	other := filepath.Join(t.TempDir(), "none")
	if err := run(t.Context(), []string{"-map", "no_such_map_", other}, cli.NewOutput(&log)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a misspelt name left a directory behind")
	}
}

// TestCaptureBTF: what -btf takes of the kernel's types is what they are, found
// again as a tree in BTFHub's layout, and nothing else.
func TestCaptureBTF(t *testing.T) {
	testenv.Need(t, testenv.BTF)
	dir := filepath.Join(t.TempDir(), "rec")
	err := run(t.Context(), []string{
		"-btf", "task_struct.real_parent->tgid", "-btf", "vfs_read", "-btf", "TCP_SYN_SENT", dir,
	}, cli.NewOutput(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	got, err := probe.NewEnv(&probe.EnvOptions{
		Root: fstest.MapFS{}, Release: probe.NewEnv(nil).Release(), BTFDir: os.DirFS(filepath.Join(dir, "btf")),
	}).BTF()
	if err != nil {
		t.Fatal(err)
	}
	want, err := btf.LoadKernelSpec()
	if err != nil {
		t.Fatal(err)
	}
	var small, all *btf.Struct
	if err := errors.Join(got.TypeByName("task_struct", &small), want.TypeByName("task_struct", &all)); err != nil {
		t.Fatal(err)
	}
	offsets := map[string]btf.Bits{}
	for _, m := range all.Members {
		offsets[m.Name] = m.Offset
	}
	if small.Size != all.Size || len(small.Members) != 2 {
		t.Errorf("task_struct of %d bytes with %d members, want %d bytes and two members", small.Size, len(small.Members), all.Size)
	}
	for _, m := range small.Members {
		if (m.Name != "tgid" && m.Name != "real_parent") || m.Offset != offsets[m.Name] {
			t.Errorf("member %s at %d, want it at %d", m.Name, m.Offset, offsets[m.Name])
		}
	}
	var fn *btf.Func
	if err := got.TypeByName("vfs_read", &fn); err != nil || len(fn.Type.(*btf.FuncProto).Params) != 4 {
		t.Errorf("vfs_read: %v, %v", fn, err)
	}
	states := 0
	for typ, err := range got.All() {
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := typ.(*btf.Enum); ok && slices.ContainsFunc(e.Values, func(v btf.EnumValue) bool {
			return v.Name == "TCP_SYN_SENT" && v.Value == 2
		}) {
			states++
		}
	}
	if states != 1 {
		t.Errorf("%d enums have TCP_SYN_SENT, want one", states)
	}
	if err := run(t.Context(), []string{"-btf", "->", filepath.Join(t.TempDir(), "other")}, cli.NewOutput(io.Discard)); err == nil {
		t.Error("a path without a type: no error")
	}
}

func TestCaptureRing(t *testing.T) {
	testenv.Need(t, testenv.Root)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096, Name: "capture_ring"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-ring", "capture_ring", "-d", "5ms", dir}, cli.NewOutput(new(bytes.Buffer))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, []string{"-ring", "capture_ring", filepath.Join(dir, "x")}, cli.NewOutput(new(bytes.Buffer))); err != nil {
		t.Fatal(err)
	}
	rec, err := recording.Open(os.DirFS(dir))
	if err != nil || !rec.Complete() {
		t.Fatal(err)
	}
	if names, err := rec.Streams(); err != nil || len(names) != 1 || names[0] != "capture_ring" {
		t.Fatal(names, err)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"dir"}, {"-map", "x"}, {"-map", "x", "a", "b"}} {
		if err := run(t.Context(), args, cli.NewOutput(new(bytes.Buffer))); err == nil {
			t.Error(args)
		}
	}
}
