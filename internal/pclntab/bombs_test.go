package pclntab

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"testing"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/testenv"
)

// Files without sections, whose data look like tables from end to end, took five
// seconds: so many places are looked at, and no more.
func TestManyHeaders(t *testing.T) {
	testenv.LimitMemory(t, 512<<20)
	head := binary.LittleEndian.AppendUint32(nil, magic120)
	head = append(head, 0, 0, 1, 8)
	p := elfbuild.Program(elfbuild.Section{
		Name: ".data", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC, Addr: 0x10000, Data: bytes.Repeat(head, 1<<17),
	})
	p.NoSections = true
	f, err := elffile.NewBytes(p.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tab := &Table{f: f, le: true}
	if err := tab.locate(); err == nil || tab.tries > maxTries+1 {
		t.Errorf("%v after %d places, want an error after %d", err, tab.tries, maxTries)
	}
	if tab.tries < maxTries {
		t.Errorf("%d places were looked at: this file is no proof", tab.tries)
	}
}
