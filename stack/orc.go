package stack

import (
	"bytes"
	"crypto/sha1"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/decompress"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/internal/procfs"
	"github.com/borescope/borescope/stack/internal/rules"
)

// orcHeaders are the contents of .orc_header (a hash of the layout, since 6.4
// and in 6.3.10), by scripts/orc_hash.sh.
var orcHeaders = map[string]rules.ORCVersion{
	"db84aed4103b31dd51e017f8f79783ca985c2c51": rules.ORC2,
	"fe5d32bf581bd63b2ca9a5c65ba5a625eab3fe24": rules.ORC3,
	"137c36ad7627c4dd55932176bb0ecdbd5041fc82": rules.ORC4,
}

// orcRegs gives the kernel's numbers: A up to 7.0, B since.
var (
	orcRegsA = [...]rules.ORCReg{
		rules.ORCUndefined, rules.ORCPrevSP, rules.ORCDX, rules.ORCDI,
		rules.ORCBP, rules.ORCSP, rules.ORCR10, rules.ORCR13, rules.ORCBPIndirect, rules.ORCSPIndirect,
	}
	orcRegsB = [...]rules.ORCReg{
		rules.ORCUndefined, rules.ORCAX, rules.ORCDX, rules.ORCSP,
		rules.ORCBP, rules.ORCDI, rules.ORCR10, rules.ORCR13, rules.ORCPrevSP, rules.ORCSPIndirect,
		rules.ORCBPIndirect,
	}
	orcNames = [...]string{
		"(und)", "prevsp", "ax", "dx", "di", "bp", "sp", "r10", "r13", "bp(ind)",
		"sp(ind)", "?",
	}
)

var orcTypeNames = [...]string{"(und)", "end", "call", "regs", "regs (partial)", "?"}

// decodeORC reads one six-byte entry.
func decodeORC(b []byte, v rules.ORCVersion) rules.ORC {
	flags := binary.LittleEndian.Uint16(b[4:])
	r := rules.ORC{
		SPOffset: int16(binary.LittleEndian.Uint16(b)),
		BPOffset: int16(binary.LittleEndian.Uint16(b[2:])), SP: rules.ORCBadReg, BP: rules.ORCBadReg,
		Type: rules.ORCBadType,
	}
	regs := orcRegsA[:]
	if v == rules.ORC4 {
		regs = orcRegsB[:]
	}
	if n := int(flags & 15); n < len(regs) {
		r.SP = regs[n]
	}
	if n := int(flags >> 4 & 15); n < len(regs) {
		r.BP = regs[n]
	}
	if v >= rules.ORC3 {
		if t := rules.ORCType(flags >> 8 & 7); t < rules.ORCBadType {
			r.Type = t
		}
		r.Signal = flags>>11&1 != 0
		return r
	}
	// Versions 1 and 2 say undefined and end by the stack pointer's register.
	end := flags>>10&1 != 0
	if t := flags >> 8 & 3; t < 3 {
		r.Type = rules.ORCTypeCall + rules.ORCType(t)
	}
	r.Signal = r.Type == rules.ORCTypeRegs || r.Type == rules.ORCTypeRegsPartial
	if v == rules.ORC2 {
		r.Signal, end = end, flags>>11&1 != 0
	}
	if r.SP == rules.ORCUndefined {
		r.Type = rules.ORCTypeUndefined
		if end {
			r.Type = rules.ORCTypeEnd
		}
	}
	return r
}

// ORCVersion is a layout of the kernel's ORC entries, which changed three times.
type ORCVersion = rules.ORCVersion

// ORCRule is how to find the caller of a stretch of kernel code: the registers that lead to its frame, and
// what kind of frame it is.
type ORCRule = rules.ORC

// ORCFile is the ORC data of a kernel or a kernel module.
type ORCFile struct {
	// Version is the layout of the entries, which differs by kernel.
	Version ORCVersion

	entries []byte
	places  []orcPlace // of relocatable files
	ip      []byte     // of linked ones: int32 counted from their own address
	ipAddr  uint64
}

type orcPlace struct {
	section string
	off     uint64
}

// ORCEntry is one row of an ORCFile.
type ORCEntry struct {
	// Section and Addr are the place where the rule begins. In a module, which is not
	// loaded yet, Addr is an offset in Section. In a kernel Addr is the address, and
	// Section is empty.
	Section string
	Addr    uint64
	// Rule is the rule from there to the next entry.
	Rule ORCRule

	raw     uint16
	version rules.ORCVersion
}

// A compressed kernel or module may expand to 32 times what it takes up, and 256 MiB more;
// leastORC bounds its ORC data in the same way. Those of distributions expand to 8 times. What
// is not zeros is bounded by maxUnpack and leastORC together.
const (
	leastUnpacked = 256 << 20
	maxUnpack     = 32
	leastORC      = 8 << 20
)

// OpenORC reads the ORC data of a kernel (vmlinux, or vmlinuz in any of its compressions)
// or of a module (.ko, also compressed). It finds the layout by the file's header, else by
// its BTF, else (modules before 6.4) by the contents of the entries. Nothing is kept open.
//
// A compressed file is decompressed in memory. It returns an error if that takes more than 32
// times the storage of the file plus 8 MiB.
func OpenORC(path string) (*ORCFile, error) {
	f, err := procfs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	o, err := openORC(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

func openORC(f *os.File) (*ORCFile, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	stored := procfs.Stored(st)
	var magic [len(elf.ELFMAG)]byte
	if n, _ := f.ReadAt(magic[:], 0); n == len(magic) && string(magic[:]) == elf.ELFMAG {
		ef, err := elffile.NewBorrowed(f)
		if err != nil {
			return nil, err
		}
		defer ef.Close()
		return readORC(ef, stored)
	}
	return unpackORC(f, st.Size(), stored)
}

// ReadORC is OpenORC for a file in memory, which is not kept.
func ReadORC(b []byte) (*ORCFile, error) {
	size := int64(len(b))
	if strings.HasPrefix(string(b[:min(len(b), 4)]), elf.ELFMAG) {
		f, err := elffile.NewBytes(b)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readORC(f, size)
	}
	return unpackORC(bytes.NewReader(b), size, size)
}

// unpackORC reads a compressed file of size bytes, which takes up stored.
func unpackORC(r io.ReaderAt, size, stored int64) (*ORCFile, error) {
	image, err := kernelImage(r, size, decompress.Bounds{
		Size: leastUnpacked + maxUnpack*stored, Content: leastORC + maxUnpack*stored,
		Memory: math.MaxInt64, Check: isELF,
	})
	if err != nil {
		return nil, err
	}
	defer image.Close()
	f, err := elffile.New(image, image.Size())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readORC(f, image.Stored())
}

// isELF returns an error unless a file begins as ELF files do.
func isELF(head []byte) error {
	if !strings.HasPrefix(string(head[:min(len(head), 4)]), elf.ELFMAG) {
		return errors.New("not an ELF file, nor one that is compressed")
	}
	return nil
}

// kernelImage returns the ELF file that the file in r decompresses to, or the payload of a
// bzImage (Documentation/arch/x86/boot.rst, protocol 2.08).
func kernelImage(r io.ReaderAt, size int64, b decompress.Bounds) (*decompress.Spooled, error) {
	const setupSects, headerMagic, version, payloadOffset, payloadLength = 0x1f1, 0x202, 0x206, 0x248,
		0x24c
	le := binary.LittleEndian
	head := make([]byte, 0x251)
	n, _ := r.ReadAt(head, 0)
	if n == len(head) && string(head[headerMagic:headerMagic+4]) == "HdrS" {
		if le.Uint16(head[version:]) < 0x208 {
			return nil, errors.New("kernel image without a payload offset")
		}
		sects := int64(head[setupSects])
		if sects == 0 {
			sects = 4
		}
		off := (sects+1)*512 + int64(le.Uint32(head[payloadOffset:]))
		length := int64(le.Uint32(head[payloadLength:]))
		if off+length > size {
			return nil, errors.New("kernel image: payload outside of the file")
		}
		r, size = io.NewSectionReader(r, off, length), length
		n, _ = r.ReadAt(head, 0)
		// The build appends the uncompressed size to all but gzip, which has it.
		if format := decompress.Detect(head[:n]); format != decompress.Gzip &&
			format != decompress.None && size > 4 {
			image, err := unpackKernel(format, r, size-4, b)
			if err == nil || errors.Is(err, decompress.ErrTooLarge) {
				return image, err
			}
		}
	}
	return unpackKernel(decompress.Detect(head[:n]), r, size, b)
}

func unpackKernel(format decompress.Format, r io.ReaderAt, size int64, b decompress.Bounds) (
	*decompress.Spooled, error,
) {
	z, err := decompress.NewReaderAt(format, r, size, b.Content)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return decompress.Spool(z, b)
}

// readORC reads the tables of a file that takes up stored bytes.
func readORC(f *elffile.File, stored int64) (o *ORCFile, err error) {
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	for _, name := range []string{
		".orc_unwind", ".orc_unwind_ip", ".rela.orc_unwind_ip", ".orc_header", ".BTF",
	} {
		if s := f.Section(name); s != nil && s.Size > uint64(stored)+leastORC {
			return nil, fmt.Errorf("ORC: section %s of %d bytes: %w", name, s.Size, elffile.ErrTooLarge)
		}
	}
	f.Bound(stored + leastORC)
	entries, err := f.Data(f.Section(".orc_unwind"))
	if err != nil {
		return nil, err
	}
	ips := f.Section(".orc_unwind_ip")
	ip, err := f.Data(ips)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 || ips == nil {
		return nil, fmt.Errorf("ORC: %w", ErrNoTable)
	}
	if len(entries)%6 != 0 || len(ip)/4 != len(entries)/6 || len(ip)%4 != 0 {
		return nil, fmt.Errorf("ORC: %d bytes of entries for %d bytes of addresses", len(entries),
			len(ip))
	}
	o = &ORCFile{entries: bytes.Clone(entries), ip: bytes.Clone(ip), ipAddr: ips.Addr}
	if f.Type == elf.ET_REL {
		if err := o.relocate(f); err != nil {
			return nil, err
		}
	}
	o.Version, err = orcVersion(f, entries)
	return o, err
}

// relocate reads where a module's entries point.
func (o *ORCFile) relocate(f *elffile.File) error {
	const relaSize = 24
	rela, err := f.Data(f.Section(".rela.orc_unwind_ip"))
	if err != nil {
		return err
	}
	syms, err := f.Symbols(f.SectionOfType(elf.SHT_SYMTAB))
	if err != nil {
		return err
	}
	n := len(o.ip) / 4
	if len(rela) != n*relaSize {
		return fmt.Errorf("ORC: %d relocations for %d entries", len(rela)/relaSize, n)
	}
	o.places = make([]orcPlace, n)
	for i := range n {
		r := rela[i*relaSize:]
		at, sym := binary.LittleEndian.Uint64(r)/4, binary.LittleEndian.Uint32(r[12:])
		if at >= uint64(n) || uint64(sym) >= uint64(syms.Len()) {
			return errors.New("ORC: relocation out of range")
		}
		s := syms.At(int(sym))
		section := syms.Section(int(sym), &s)
		if uint64(section) >= uint64(len(f.Sections)) {
			return errors.New("ORC: relocation against no section")
		}
		o.places[at] = orcPlace{f.Sections[section].Name, s.Value + binary.LittleEndian.Uint64(r[16:])}
	}
	o.ip = nil
	return nil
}

// orcVersion finds the layout. It never uses the kernel's version, which is wrong after
// backports (RHEL 9.6 has layout 3 in a kernel that calls itself 5.14).
func orcVersion(f *elffile.File, entries []byte) (rules.ORCVersion, error) {
	header, err := f.Data(f.Section(".orc_header"))
	if err != nil {
		return rules.ORCUnknown, err
	}
	if len(header) == sha1.Size {
		return ORCVersionOf(header)
	}
	types, err := f.Data(f.Section(".BTF"))
	if err != nil {
		return rules.ORCUnknown, err
	}
	if v := orcVersionByBTF(types); v != rules.ORCUnknown {
		return v, nil
	}
	// Most entries are calls: number 2 in layout 3, 0 before.
	var kinds [8]int
	for i := 0; i+6 <= len(entries); i += 6 {
		kinds[binary.LittleEndian.Uint16(entries[i+4:])>>8&7]++
	}
	if kinds[2] > kinds[0] {
		return rules.ORC3, nil
	}
	return rules.ORC1, nil
}

// ORCVersionOf returns the layout of a header: the 20 bytes of .orc_header, or of the
// kernel's symbol orc_header.
func ORCVersionOf(header []byte) (ORCVersion, error) {
	if v := orcHeaders[hex.EncodeToString(header)]; v != rules.ORCUnknown {
		return v, nil
	}
	return rules.ORCUnknown, fmt.Errorf("ORC: unknown layout %x", header)
}

// NewORC returns the ORC data of a running kernel, or a part of it. ip and entries are the
// tables from __start_orc_unwind_ip to __stop_orc_unwind_ip and the same of orc_unwind;
// ipAddr is the address of the first one.
func NewORC(ip, entries []byte, ipAddr uint64, v ORCVersion) (*ORCFile, error) {
	if len(ip)%4 != 0 || len(entries) != len(ip)/4*6 {
		return nil, fmt.Errorf("ORC: %d bytes of entries for %d bytes of addresses", len(entries),
			len(ip))
	}
	if v < rules.ORC1 || v > rules.ORC4 {
		return nil, fmt.Errorf("ORC: layout %d", v)
	}
	return &ORCFile{Version: v, entries: bytes.Clone(entries), ip: bytes.Clone(ip), ipAddr: ipAddr},
		nil
}

// len is the number of entries.
func (o *ORCFile) len() int { return len(o.entries) / 6 }

// All yields the entries in the file's order: by address in kernels, in no order
// in modules, which the kernel sorts when it loads them.
func (o *ORCFile) All() iter.Seq[ORCEntry] {
	return func(yield func(ORCEntry) bool) {
		for i := range o.len() {
			if !yield(o.entry(i)) {
				return
			}
		}
	}
}

func (o *ORCFile) entry(i int) ORCEntry {
	raw := o.entries[6*i:]
	e := ORCEntry{
		Rule: decodeORC(raw, o.Version), raw: binary.LittleEndian.Uint16(raw[4:]),
		version: o.Version,
	}
	if o.places != nil {
		e.Section, e.Addr = o.places[i].section, o.places[i].off
	} else {
		e.Addr = o.ipAddr + uint64(4*i) + uint64(int64(int32(binary.LittleEndian.Uint32(o.ip[4*i:]))))
	}
	return e
}

// String returns the line that the "objtool --dump=orc" of that kernel's time prints.
func (e ORCEntry) String() string {
	b := make([]byte, 0, 80)
	if e.Section != "" {
		b = append(append(b, e.Section...), '+')
	}
	b = append(strconv.AppendUint(b, e.Addr, 16), ':')
	reg := func(label string, r rules.ORCReg, off int16) {
		b = append(append(b, label...), orcNames[r]...)
		switch r {
		case rules.ORCUndefined:
		case rules.ORCBPIndirect, rules.ORCSPIndirect: // the offset belongs inside
			b = b[:len(b)-len(orcNames[r])]
			b = append(b, '(')
			b = append(b, orcNames[r][:2]...)
			b = appendSigned(b, off)
			b = append(b, ')')
		default:
			b = appendSigned(b, off)
		}
	}
	if e.version >= rules.ORC3 {
		b = append(append(b, "type:"...), orcTypeNames[e.Rule.Type]...)
		reg(" sp:", e.Rule.SP, e.Rule.SPOffset)
		reg(" bp:", e.Rule.BP, e.Rule.BPOffset)
		b = append(b, " signal:"...)
		return string(appendBit(b, e.Rule.Signal))
	}
	reg(" sp:", e.Rule.SP, e.Rule.SPOffset)
	reg(" bp:", e.Rule.BP, e.Rule.BPOffset)
	b = append(append(b, " type:"...), e.oldType()...)
	if e.version == rules.ORC2 {
		b = append(b, " signal:"...)
		b = append(appendBit(b, e.Rule.Signal), " end:"...)
		return string(appendBit(b, e.raw>>11&1 != 0))
	}
	b = append(b, " end:"...)
	return string(appendBit(b, e.raw>>10&1 != 0))
}

// oldType is the type's field as layouts 1 and 2 have it.
func (e ORCEntry) oldType() string {
	return [...]string{"call", "regs", "regs (partial)", "?"}[e.raw>>8&3]
}

func appendBit(b []byte, v bool) []byte {
	if v {
		return append(b, '1')
	}
	return append(b, '0')
}

func appendSigned(b []byte, v int16) []byte {
	if v >= 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(v), 10)
}
