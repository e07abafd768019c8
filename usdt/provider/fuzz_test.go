package provider

import (
	"bytes"
	"debug/elf"
	"testing"

	"github.com/borescope/borescope/internal/usdtfire"
	"github.com/borescope/borescope/usdt"
	"github.com/borescope/borescope/usdt/arg"
)

// FuzzImage builds objects for any names and types that are accepted, and reads
// them back: every probe with its arguments, none of them unreadable.
func FuzzImage(f *testing.F) {
	f.Add("app", "request", []byte{0, 1, 2, 3}, []byte{9, 10, 8}, uint16(1))
	f.Add("a.b-c", "x", []byte{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, []byte{}, uint16(300))
	f.Fuzz(func(t *testing.T, provider, name string, first, second []byte, count uint16) {
		p, err := New(provider)
		if err != nil {
			return
		}
		types := func(b []byte) (list []arg.Type) {
			for _, c := range b {
				list = append(list, arg.Type(c))
			}
			return list
		}
		for range 1 + count%300 {
			p.Probe(name, types(first)...)
			p.Probe(name+"2", types(second)...)
		}
		if len(p.errs) > 0 {
			return
		}
		for arch, target := range usdtfire.Targets {
			im := buildImage(target, p.name, p.probes, 4096)
			if _, err := elf.NewFile(bytes.NewReader(im.bytes)); err != nil {
				t.Fatal(arch, err)
			}
			file, err := usdt.NewFile(bytes.NewReader(im.bytes))
			if err != nil {
				t.Fatal(arch, err)
			}
			sites, err := file.Sites()
			if err != nil || len(sites) != len(p.probes) {
				t.Fatalf("%s: %d sites of %d, %v", arch, len(sites), len(p.probes), err)
			}
			for i, s := range sites {
				if s.Err != nil || s.Provider != provider || s.Name != p.probes[i].Name() || s.Nop != "nop" || s.PC != uint64(im.stub(i)) {
					t.Fatalf("%s: %+v", arch, s)
				}
			}
		}
	})
}
