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

// 23 writes of 4 KiB and 46 reads of 1 KiB by a child are one row; the pipes by
// which it is told what to do are rows with -a only.
func TestLive(t *testing.T) {
	for r := range live(t) {
		if r.T != "R" {
			t.Errorf("not a regular file: %+v", r)
		}
	}
}

func TestLiveAll(t *testing.T) {
	for r := range live(t, "-a") {
		if r.T == "O" && r.Writes > 0 {
			return
		}
	}
	t.Error("no pipe")
}

type row struct {
	Reads, Writes int
	R             int `json:"r_kb"`
	W             int `json:"w_kb"`
	T, File       string
}

var used = row{Reads: 46, Writes: 23, R: 46, W: 92, T: "R", File: name}

// live returns the rows of a child, of which one is of the file that it uses.
func live(t *testing.T, flags ...string) map[row]int {
	child := tooltest.Start(t, "files")
	out := tooltest.Live(t, run, append(flags, "-json", "-p", strconv.Itoa(child.PID), "3600"), child.Work)
	rows := map[row]int{}
	for _, r := range tooltest.Objects[row](t, out) {
		rows[r]++
		if r.File == name && r != used { // Go's runtime reads files of its own
			t.Errorf("%+v, want %+v", r, used)
		}
	}
	if rows[used] != 1 {
		t.Errorf("%d rows %+v:\n%s", rows[used], used, out)
	}
	return rows
}
