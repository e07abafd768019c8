package ksyms

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const list = `ffffffff81000000 T _stext
ffffffff81000000 t startup
ffffffff81000040 T vfs_read
ffffffff81000080 D jiffies
ffffffff81000100 T _etext
ffffffffc0001080 T ext4_sync	[ext4]
ffffffffc0001000 t helper	[ext4]
ffffffffc0000100 t bpf_prog_6deef7357e7b4530_hello	[bpf]
`

// Symbols come in the order of addresses, the best of several for one last, whatever
// order the list is in.
func TestOrder(t *testing.T) {
	tab, err := Parse(strings.NewReader(list), false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, name := range tab.All() {
		names = append(names, string(name)+tab.Module(i))
		if string(tab.Name(i)) != string(name) || tab.EndsSection(i) != (string(name) == "_etext") {
			t.Errorf("symbol %d is %s, ends a section: %v", i, tab.Name(i), tab.EndsSection(i))
		}
	}
	want := []string{
		"startup[kernel]", "_stext[kernel]", "vfs_read[kernel]", "_etext[kernel]", "bpf_prog_6deef7357e7b4530_hello[bpf]",
		"helper[ext4]", "ext4_sync[ext4]",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// What was written reads the same again, and what is no table is an error.
func FuzzDecode(f *testing.F) {
	tab, err := Parse(strings.NewReader(list), true)
	if err != nil {
		f.Fatal(err)
	}
	none := func(string) bool { return false }
	f.Add(Encode(tab, none))
	f.Add(Encode(tab, func(mod string) bool { return mod == "[bpf]" }))
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, err := Decode(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		b = Encode(tab, none)
		again, err := Decode(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range again.Len() {
			if again.At(i) != tab.At(i) || again.Module(i) != tab.Module(i) || string(again.Name(i)) != string(tab.Name(i)) {
				t.Fatalf("symbol %d is another", i)
			}
		}
	})
}
