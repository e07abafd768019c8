package procfs

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
)

const mapsText = `00400000-0048a000 r-xp 00000000 fd:03 960637                             /bin/bash
7fff8e748000-7fff8e769000 rw-p 00000000 00:00 0                          [stack]
7f0000000000-7f0000001000 r-xs 00002000 103:0a 4294967299 /a b/c (deleted) (deleted)
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
7f1000000000-7f1000001000 rwxp 00000000 00:00 0 
`

func readMaps(text string) (list []Mapping, err error) {
	err = ReadMaps(strings.NewReader(text), func(m *Mapping) bool {
		list = append(list, *m)
		return true
	})
	return list, err
}

func TestReadMaps(t *testing.T) {
	got, err := readMaps(mapsText)
	if err != nil {
		t.Fatal(err)
	}
	want := []Mapping{
		{0x400000, 0x48a000, 0, 0xfd<<32 | 3, 960637, "/bin/bash", false, Read | Exec},
		{0x7fff8e748000, 0x7fff8e769000, 0, 0, 0, "[stack]", false, Read | Write},
		{0x7f0000000000, 0x7f0000001000, 0x2000, 0x103<<32 | 10, 4294967299, "/a b/c (deleted)", true, Read | Exec | Shared},
		{0xffffffffff600000, 0xffffffffff601000, 0, 0, 0, "[vsyscall]", false, Exec},
		{0x7f1000000000, 0x7f1000001000, 0, 0, 0, "", false, Read | Write | Exec},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	n := 0
	if err := ReadMaps(strings.NewReader(mapsText), func(*Mapping) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("stopped after %d: %v", n, err)
	}
	for _, bad := range []string{
		"x", "400000 r-xp 0 0:0 0", "400000-300000 r-xp 0 0:0 0", "400000-500000 r-xp 0 00 0",
		"400000-500000 r-x", "12345678901234567-5 r-xp 0 0:0 0", "1-2 r-xp 0 0:0 99999999999999999999999",
		"1-2 r-xp 0 0:0 1 " + strings.Repeat("x", 1<<16),
	} {
		if _, err := readMaps("00400000-0048a000 r-xp 00000000 fd:03 1 /x\n" + bad + "\n"); err == nil ||
			!strings.Contains(err.Error(), "maps:2") {
			t.Errorf("%.30q: got %v", bad, err)
		}
	}
}

// FuzzReadMaps prints what was read and reads it again.
func FuzzReadMaps(f *testing.F) {
	f.Add([]byte(mapsText))
	f.Fuzz(func(t *testing.T, b []byte) {
		var list []Mapping
		if ReadMaps(bytes.NewReader(b), func(m *Mapping) bool { list = append(list, *m); return true }) != nil {
			return
		}
		for _, m := range list {
			if strings.ContainsAny(m.Path, "\r") {
				continue
			}
			again, err := readMaps(m.String() + "\n")
			if err != nil || len(again) != 1 || again[0] != m {
				t.Fatalf("%q: %+v and then %+v, %v", m.String(), m, again, err)
			}
		}
	})
}

func TestStat(t *testing.T) {
	line := "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 251278 0 0\n"
	s, err := ParseStat([]byte(line))
	if err != nil || s != (Stat{"a) b (c", 'S', 1, 251278, 42, 1}) {
		t.Errorf("got %+v %v", s, err)
	}
	for _, bad := range []string{"", "7 (a", ")(", "7 (a) S 1", strings.Replace(line, "251278", "x", 1), strings.Replace(line, " 12 ", " -12 ", 1)} {
		if _, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 251278 0 0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStat(b)
		if err == nil && !bytes.Contains(b, []byte("("+s.Comm+")")) {
			t.Errorf("%q is not in %q", s.Comm, b)
		}
	})
}

func TestNSpid(t *testing.T) {
	tr := fstest.MapFS{
		"proc/7/status": {Data: []byte("Name:\tx\nNSpid:\t7\t12\t1\nNSpgid:\t7\n")},
		"proc/8/status": {Data: []byte("Name:\tx\n")},
		"proc/self/x":   {},
	}
	for pid, want := range map[int]int{7: 1, 8: 8, 9: 9} {
		if got := NSpid(tr, pid); got != want {
			t.Errorf("%d: got %d", pid, got)
		}
	}
	pids, err := PIDs(tr)
	if err != nil || !slices.Equal(pids, []int{7, 8}) {
		t.Errorf("got %v %v", pids, err)
	}
}

func TestThisProcess(t *testing.T) {
	testenv.Need(t, testenv.OS("linux"))
	root := Root(nil)
	s, err := ReadStat(root, os.Getpid())
	if err != nil || s.StartTime == 0 || s.Comm == "" {
		t.Errorf("got %+v %v", s, err)
	}
	f, err := root.Open(path(os.Getpid(), "maps"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	exe, _ := os.Executable()
	found := false
	err = ReadMaps(f, func(m *Mapping) bool {
		if m.Path != exe || m.Perm&Exec == 0 {
			return true
		}
		found = true
		file, err := OpenInRoot(os.Getpid(), m.Path, false)
		if err != nil {
			t.Error(err)
			return false
		}
		defer file.Close()
		if dev, inode, err := FileID(file); err != nil || inode != m.Inode {
			t.Errorf("%d:%d is not that of %v: %v", dev, inode, m, err)
		}
		b := make([]byte, 64)
		if err := ReadMemory(os.Getpid(), b, m.Start); err != nil {
			t.Error(err)
		}
		return false
	})
	if err != nil || !found {
		t.Errorf("this program is not mapped: %v", err)
	}
	if err := ReadMemory(os.Getpid(), make([]byte, 8), 16); err == nil {
		t.Error("address 16 can be read")
	}
	if _, err := OpenInRoot(os.Getpid(), "/proc/self/exe/x", false); err == nil {
		t.Error("a path through a file can be opened")
	}
}
