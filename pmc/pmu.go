package pmc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pmuDir is the kernel's directory of PMUs (Documentation/ABI/testing/
// sysfs-bus-event_source-devices-*).
const pmuDir = "sys/bus/event_source/devices"

// Format is the bits of the attribute that a term of a PMU event sets: "config:0-7,32-35".
type Format struct {
	// Name is the term: "umask".
	Name string
	// Word is 0 to 3 for config, config1, config2, config3.
	Word int
	// Bits is the mask of the bits that it sets; the value's bits are stored there from the
	// lowest upwards.
	Bits uint64
}

// parseFormat reads a file of a PMU's format directory: "config:0-7,32-35",
// "config1:0", "config" for all 64 bits.
func parseFormat(name, text string) (Format, error) {
	f := Format{Name: name}
	text = strings.TrimSpace(text)
	word, ranges, some := strings.Cut(text, ":")
	switch word {
	case "config":
	case "config1", "config2", "config3":
		f.Word = int(word[6] - '0')
	default:
		return Format{}, fmt.Errorf(
			"format %s: no such word: %.40q: want config, config1, config2 or config3", name, word)
	}
	if !some {
		f.Bits = ^uint64(0)
		return f, nil
	}
	for r := range strings.SplitSeq(ranges, ",") {
		bits, err := parseBits(r)
		if err != nil {
			return Format{}, fmt.Errorf("format %s: %w", name, err)
		}
		f.Bits |= bits
	}
	return f, nil
}

func parseBits(r string) (uint64, error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(r), "-")
	if !isRange {
		last = first
	}
	lo, err1 := strconv.ParseUint(first, 10, 8)
	hi, err2 := strconv.ParseUint(last, 10, 8)
	if err1 != nil || err2 != nil || lo > hi || hi > 63 {
		return 0, fmt.Errorf("bad bits %.20q: want numbers and ranges from 0 to 63, as 0-7,32-35", r)
	}
	return ^uint64(0) >> (63 - (hi - lo)) << lo, nil
}

// String returns the format as sysfs writes it.
func (f Format) String() string {
	word := "config"
	if f.Word > 0 {
		word += strconv.Itoa(f.Word)
	}
	if f.Bits == ^uint64(0) {
		return word + ":0-63"
	}
	var parts []string
	for b := 0; b < 64; b++ {
		if f.Bits>>b&1 == 0 {
			continue
		}
		lo := b
		for b < 63 && f.Bits>>(b+1)&1 == 1 {
			b++
		}
		if lo == b {
			parts = append(parts, strconv.Itoa(lo))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", lo, b))
		}
	}
	return word + ":" + strings.Join(parts, ",")
}

// max returns the largest value that fits the format's bits.
func (f Format) max() uint64 {
	var n uint64
	for b := f.Bits; b != 0; b &= b - 1 {
		n = n<<1 | 1
	}
	return n
}

// put sets the format's bits in e. Like perf (pmu_format_value) it adds bits and never
// clears any: a term given twice is the union of both.
func (f Format) put(e *Event, v uint64) error {
	if v > f.max() {
		return fmt.Errorf("%s=0x%x: too big for %s, whose maximum is 0x%x", f.Name, v, f, f.max())
	}
	var bits uint64
	for b := 0; b < 64; b++ {
		if f.Bits>>b&1 == 1 {
			bits |= v & 1 << b
			v >>= 1
		}
	}
	*e.word(f.Word) |= bits
	return nil
}

func (e *Event) word(i int) *uint64 {
	return [...]*uint64{&e.Config, &e.Config1, &e.Config2, &e.Config3}[i&3]
}

// rootOf returns the file system to read the host's files from.
func rootOf(o *Options) fs.FS {
	if o == nil || o.Root == nil {
		return os.DirFS("/")
	}
	return o.Root
}

// sysfsPMU is a PMU's directory, read as needed.
type sysfsPMU struct {
	fsys fs.FS
	name string
	typ  uint32
}

// lookPMU returns the PMU of that exact name.
func lookPMU(fsys fs.FS, name string) (sysfsPMU, error) {
	p := sysfsPMU{fsys: fsys, name: name}
	if !validPMUName(name) {
		return p, fmt.Errorf("bad PMU name %.60q", name)
	}
	text, err := p.read("type")
	if err != nil {
		return p, err
	}
	typ, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return p, fmt.Errorf("PMU %s: bad type %.20q", name, text)
	}
	p.typ = uint32(typ)
	return p, nil
}

func validPMUName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "/\\") && fs.ValidPath(name) && name != "."
}

func (p sysfsPMU) read(name string) (string, error) {
	b, err := readSmall(p.fsys, path.Join(pmuDir, p.name, name))
	return strings.TrimSpace(string(b)), err
}

// readSmall reads a file of sysfs, procfs or tracefs, which never has more than a page; a
// larger file in a fixture is refused.
func readSmall(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const limit = 64 << 10
	buf := make([]byte, 512)
	n := 0
	for {
		if n == len(buf) {
			if n >= limit {
				return nil, fmt.Errorf("%s: larger than %d bytes", name, limit)
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := f.Read(buf[n:])
		n += m
		if err != nil {
			if errors.Is(err, io.EOF) {
				return buf[:n], nil
			}
			return nil, err
		}
	}
}

func (p sysfsPMU) format(term string) (Format, bool, error) {
	if !validPMUName(term) {
		return Format{}, false, nil
	}
	text, err := p.read("format/" + term)
	if errors.Is(err, fs.ErrNotExist) {
		return Format{}, false, nil
	}
	if err != nil {
		return Format{}, false, err
	}
	f, err := parseFormat(term, text)
	if err != nil {
		return Format{}, false, fmt.Errorf("PMU %s: %w", p.name, err)
	}
	return f, true, nil
}

// alias returns the terms of a named event of the PMU: "event=0x3c".
func (p sysfsPMU) alias(name string) (terms string, ok bool, err error) {
	if !validPMUName(name) || isEventProperty(name) {
		return "", false, nil
	}
	text, err := p.read("events/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return text, err == nil, err
}

// isEventProperty reports whether a file describes an event rather than being one.
func isEventProperty(name string) bool {
	for _, suffix := range []string{".scale", ".unit", ".per-pkg", ".snapshot"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// properties reads an event's scale, unit and flags into e.
func (p sysfsPMU) properties(e *Event, name string) error {
	if text, err := p.read("events/" + name + ".scale"); err == nil {
		if e.Scale, err = strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("PMU %s: event %s: bad scale %.40q", p.name, name, text)
		}
	}
	if text, err := p.read("events/" + name + ".unit"); err == nil {
		e.Unit = text
	}
	for _, f := range []struct {
		file string
		flag *bool
	}{{".per-pkg", &e.PerPackage}, {".snapshot", &e.Snapshot}} {
		if text, err := p.read("events/" + name + f.file); err == nil && text == "1" {
			*f.flag = true
		}
	}
	return nil
}

// isCorePMU reports whether a PMU is one of the CPUs themselves, by its name: cpu (x86,
// RISC-V, POWER), cpu_core and cpu_atom (hybrid x86), the ARM families, s390's cpum_cf.
func isCorePMU(name string) bool {
	if name == "cpu" || name == "cpum_cf" {
		return true
	}
	for _, prefix := range []string{"cpu_", "armv7_", "armv8_", "armv9_", "apple_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// pmuNames lists all PMUs, sorted.
func pmuNames(fsys fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(fsys, pmuDir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names, nil
}

// corePMUs lists the CPUs' own PMUs; a hybrid machine has several.
func corePMUs(fsys fs.FS) []string {
	all, err := pmuNames(fsys)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(n string) bool { return !isCorePMU(n) })
}

// matchPMUs returns the PMUs that a name in an event string means: the one of that name,
// else the numbered ones (uncore_imc_0, uncore_imc_1 for "uncore_imc", or for "imc":
// tools/perf/util/pmu.c, perf_pmu__match).
func matchPMUs(fsys fs.FS, name string) []string {
	all, err := pmuNames(fsys)
	if err != nil {
		return nil
	}
	if slices.Contains(all, name) {
		return []string{name}
	}
	var out []string
	for _, n := range all {
		base, number, ok := cutLast(n, "_")
		if !ok || number == "" || strings.Trim(number, "0123456789") != "" {
			base = n
		}
		if base == name || strings.TrimPrefix(base, "uncore_") == name {
			out = append(out, n)
		}
	}
	return out
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
