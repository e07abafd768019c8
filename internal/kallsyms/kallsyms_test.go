package kallsyms

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const text = `ffffffff81000000 T _text
ffffffff81000100 T vfs_read
ffffffff81000200 T vfs_write
ffffffff81000300 T do_exit
ffffffff81000400 t twin
ffffffff81000500 t twin
ffffffff81000600 t lookup_fast.isra.0
ffffffff81000700 T __x64_sys_getppid
ffffffff81000800 T narrow
ffffffff81000900 T nine
ffffffff81000a00 T by_value
ffffffff81000b00 D jiffies
ffffffffc0000000 t ext4_sync_fs	[ext4]
ffffffffc0000100 t ext4_sync_file	[ext4]
`

func TestKallsyms(t *testing.T) {
	k, err := Read(strings.NewReader(text + "ffffffffc1000000 t bpf_prog_x\t[bpf]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Lookup("", "twin"); len(got) != 2 || got[1].Address != 0xffffffff81000500 {
		t.Errorf("twin: %v", got)
	}
	if got := k.Lookup("ext4", "ext4_sync_fs"); len(got) != 1 || got[0].Module != "ext4" {
		t.Errorf("ext4_sync_fs: %v", got)
	}
	for _, none := range []string{"", "jiffies", "bpf_prog_x", "vfs_rea", "vfs_read2"} {
		if got := k.Lookup("", none); len(got) != 0 {
			t.Errorf("%q: %v", none, got)
		}
	}
	for _, c := range []struct {
		addr uint64
		name string
		size uint64
	}{
		{0xffffffff81000100, "vfs_read", 0x100},
		{0xffffffff810001ff, "vfs_read", 0x100},
		{0xffffffffc0000200, "ext4_sync_file", 0},
		{0xffffffff81000000, "_text", 0x100},
	} {
		if s, size, ok := k.At(c.addr); !ok || s.Name != c.name || size != c.size {
			t.Errorf("%#x: %v %#x %v", c.addr, s, size, ok)
		}
	}
	if _, _, ok := k.At(1); ok {
		t.Error("an address before all functions has one")
	}
	hidden, err := Read(strings.NewReader("0000000000000000 T vfs_read\n"))
	if err != nil || !hidden.Hidden || k.Hidden {
		t.Errorf("hidden: %v %v", hidden, err)
	}
	for _, bad := range []string{"zz T x\n", "ffffffff81000000\n", "ffffffff81000000 T \n", "fffffffff81000000 T x\n"} {
		if _, err := Read(strings.NewReader(text + bad)); err == nil || !strings.HasPrefix(err.Error(), "kallsyms:15: bad line") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(text))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := read(bytes.NewReader(b), 8, 64)
		if err != nil {
			return
		}
		for s := range k.All() {
			found := k.Lookup(s.Module, s.Name)
			if !slices.Contains(found, s) {
				t.Fatalf("%v is not found by its name", s)
			}
		}
	})
}

func TestFilterFunctions(t *testing.T) {
	got, err := ReadTraceable(strings.NewReader(
		"ffffffff81000100 vfs_read\nffffffff81000200 __ftrace_invalid_address___80\nffffffffc0000000 ext4_sync_fs [ext4]\n"), true)
	if err != nil {
		t.Fatal(err)
	}
	want := Traceable{{"vfs_read", "", 0xffffffff81000100}, {"ext4_sync_fs", "ext4", 0xffffffffc0000000}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestStable: kprobe:* had functions that the kernel's tests do not attach to.
func TestStable(t *testing.T) {
	all := Traceable{{Name: "vfs_read"}, {Name: "rcu_read_unlock_strict"}, {Name: "default_idle"}, {Name: "srcu_init"}}
	if got := all.Stable(); !slices.Equal(got, Traceable{{Name: "vfs_read"}, {Name: "srcu_init"}}) {
		t.Errorf("got %v", got)
	}
}

// TestBlacklist: a function that the compiler made of a forbidden one is forbidden too. It was
// listed as traceable: pci_serr_error.part.0 on 7.2.
func TestBlacklist(t *testing.T) {
	b := ReadBlacklist(fstest.MapFS{"sys/kernel/debug/kprobes/blacklist": {
		Data: []byte("0xffffffff81000100-0xffffffff81000120\tpci_serr_error\n0x0-0x0\tdo_int3\n"),
	}})
	list := Traceable{{Name: "pci_serr_error.part.0"}, {Name: "pci_serr_errors.part.0"}, {Name: "do_int3"}, {Name: "vfs_read"}}
	if got, want := list.Without(b), (Traceable{list[1], list[3]}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
