package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/borescope/borescope/probe/tool/tooltest"
)

const name = "borescope-filetop"

// The work is done by system calls themselves: package os makes more of them.
func TestMain(m *testing.M) {
	tooltest.Main(m, map[string]func(){"files": func() {
		path := filepath.Join(os.TempDir(), name)
		fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR, 0o600)
		if err != nil {
			panic(err)
		}
		buf := make([]byte, 4096)
		for i := range 23 {
			syscall.Write(fd, buf)
			syscall.Read(fd, buf[:1024])
			syscall.Pread(fd, buf[:1024], int64(i))
		}
		syscall.Close(fd)
		syscall.Unlink(path)
	}})
}

func TestCommandLine(t *testing.T) { tooltest.CommandLine(t, "filetop", run) }

func TestReplay(t *testing.T) { tooltest.Replay(t, run, "testdata/files") }

// 23 writes of 4 KiB and 46 reads of 1 KiB by a child are one row; the pipes by
// which it is told what to do are rows with -a only.
func TestLive(t *testing.T) {
	for r, n := range live(t) {
		if r != used || n != 1 {
			t.Errorf("%d rows %+v", n, r)
		}
	}
}

func TestLiveAll(t *testing.T) {
	rows := live(t, "-a")
	if rows[used] != 1 {
		t.Errorf("no row %+v: %+v", used, rows)
	}
	delete(rows, used)
	for r := range rows {
		if r.T != "O" {
			t.Errorf("not a pipe: %+v", r)
		}
	}
	if len(rows) == 0 {
		t.Error("no pipes")
	}
}

type row struct {
	Reads, Writes int
	R             int `json:"r_kb"`
	W             int `json:"w_kb"`
	T, File       string
}

var used = row{Reads: 46, Writes: 23, R: 46, W: 92, T: "R", File: name}

func live(t *testing.T, flags ...string) map[row]int {
	child := tooltest.Start(t, "files")
	out := tooltest.Live(t, run, append(flags, "-json", "-p", strconv.Itoa(child.PID), "3600"), child.Work)
	rows := map[row]int{}
	for _, r := range tooltest.Objects[row](t, out) {
		rows[r]++
	}
	if len(rows) == 0 {
		t.Error("no rows")
	}
	return rows
}

func TestFirst(t *testing.T) {
	files := group(map[file]int64{
		{Inode: 1, Sum: 0}: 9, {Inode: 1, Sum: 1}: 100,
		{Inode: 2, Sum: 2}: 3, {Inode: 2, Sum: 3}: 5000,
		{Inode: 3, Sum: 0}: 1, {Inode: 3, Sum: 1}: 900,
	})
	for order, want := range map[string][2]uint64{"all": {2, 3}, "reads": {1, 3}, "writes": {2, 1}, "rbytes": {3, 1}, "wbytes": {2, 1}} {
		got := first(files, 2, orders[order])
		if len(got) != 2 || got[0].Inode != want[0] || got[1].Inode != want[1] {
			t.Errorf("by %s: %+v", order, got)
		}
	}
	if got := first(files, 9, orders["all"]); len(got) != 3 {
		t.Errorf("%d files", len(got))
	}
}
