package elfnotes

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// goSpec returns the spec of a note of the Go linker, cmd/link/internal/ld/elf.go.
func goSpec(typ uint32) spec {
	switch typ {
	case 1:
		return spec{"go-pkg-list", decodeText}
	case 2:
		return spec{"go-abi-hash", nil}
	case 3:
		return spec{"go-deps", decodeText}
	case 4:
		return spec{"go-build-id", decodeText}
	}
	return spec{}
}

// linuxSpec returns the spec of a note of include/linux/elfnote-lto.h or build-salt.h of the
// kernel.
func linuxSpec(typ uint32) spec {
	switch typ {
	case 0x100:
		return spec{"build-salt", decodeText}
	case 0x101:
		return spec{"lto", decodeNumber}
	}
	return spec{}
}

// xenNotes are the names of XEN_ELFNOTE_*, include/xen/interface/elfnote.h of
// the kernel. phys32-entry is the entry point for PVH boot, which QEMU,
// Firecracker and Cloud Hypervisor use.
var xenNotes = []string{
	"xen-info", "xen-entry", "xen-hypercall-page", "xen-virt-base", "xen-paddr-offset", "xen-version",
	"xen-guest-os", "xen-guest-version", "xen-loader", "xen-pae-mode", "xen-features",
	"xen-bsd-symtab", "xen-hv-start-low", "xen-l1-mfn-valid", "xen-suspend-cancel", "xen-init-p2m",
	"xen-mod-start-pfn", "xen-supported-features", "xen-phys32-entry", "xen-phys32-reloc",
}

func xenSpec(typ uint32) spec {
	if typ >= uint32(len(xenNotes)) {
		return spec{}
	}
	s := spec{xenNotes[typ], decodeNumber}
	switch {
	case typ >= 5 && typ <= 11:
		s.decode = decodeText
	case typ == 13: // an array of masks and values
		s.decode = nil
	case typ == 19:
		s.decode = decodeWords
	}
	return s
}

// Words is a descriptor that is an array of 32-bit numbers.
type Words []uint32

// String reads "0x200000 0x1000000".
func (w Words) String() string {
	s := make([]string, len(w))
	for i, v := range w {
		s[i] = fmt.Sprintf("%#x", v)
	}
	return strings.Join(s, " ")
}

func (Words) value() {}

func decodeWords(n Note) (Value, error) {
	if len(n.Desc)%4 != 0 {
		return nil, fmt.Errorf("descriptor of %d bytes is not an array of words", len(n.Desc))
	}
	w := make(Words, 0, len(n.Desc)/4)
	for r := newReader(n); len(r.b) > 0; {
		w = append(w, r.u32())
	}
	return w, nil
}

// Android is the note of owner "Android" in binaries built with the NDK.
type Android struct {
	// API is the API level that the binary targets.
	API uint32 `json:"api"`
	// NDK and Build are the toolchain's versions ("r25c", "9519653"), empty in
	// binaries of the platform itself.
	NDK   string `json:"ndk,omitempty"`
	Build string `json:"build,omitempty"`
}

// String reads "API 21 NDK r25c build 9519653".
func (a Android) String() string {
	s := fmt.Sprintf("API %d", a.API)
	if a.NDK != "" {
		s += " NDK " + a.NDK
	}
	if a.Build != "" {
		s += " build " + a.Build
	}
	return s
}

func (Android) value() {}

// androidSpec returns the spec of a note of bionic's libc/arch-common/bionic/crtbrand.S or
// libc/include/elf.h.
func androidSpec(typ uint32) spec {
	switch typ {
	case 1:
		return spec{"android-ident", decodeAndroid}
	case 3:
		return spec{"android-kuser", nil}
	case 4:
		return spec{"android-memtag", decodeNumber}
	case 5:
		return spec{"android-pad-segment", decodeNumber}
	}
	return spec{}
}

func decodeAndroid(n Note) (Value, error) {
	r := newReader(n)
	a := Android{API: r.u32()}
	if len(r.b) > 0 {
		a.NDK, a.Build = r.text(64), r.text(64)
	}
	return a, r.err()
}

// OSVersion is the identification of a BSD: the version in that system's numbers, 1400097
// for FreeBSD 14.0, 199905 for OpenBSD's constant 0.
type OSVersion uint32

// String returns the number.
func (v OSVersion) String() string { return fmt.Sprint(uint32(v)) }

func (OSVersion) value() {}

func decodeOSVersion(n Note) (Value, error) {
	r := newReader(n)
	v := OSVersion(r.u32())
	return v, r.err()
}

// freeBSDSpec returns the spec of a note of FreeBSD's sys/sys/elf_common.h.
func freeBSDSpec(typ uint32) spec {
	switch typ {
	case 1:
		return spec{"abi-tag", decodeOSVersion}
	case 2:
		return spec{"noinit-tag", decodeNumber}
	case 3:
		return spec{"arch-tag", decodeText}
	case 4:
		return spec{"feature-ctl", decodeNumber}
	}
	return spec{}
}

// netBSDSpec returns the spec of a note of NetBSD's sys/sys/exec_elf.h.
func netBSDSpec(owner string, typ uint32) spec {
	switch {
	case owner == "PaX" && typ == 3:
		return spec{"pax", decodeNumber}
	case owner == "NetBSD" && typ == 1:
		return spec{"ident", decodeOSVersion}
	case owner == "NetBSD" && typ == 5:
		return spec{"march", decodeText}
	case owner == "NetBSD" && typ == 6:
		return spec{"mcmodel", decodeText}
	}
	return spec{}
}

// Stapsdt is a USDT probe site as <sys/sdt.h> writes it. Package usdt parses its Args and finds
// the place of PC in the file.
type Stapsdt struct {
	// PC is the address of the probe's nop, Base that of .stapsdt.base and
	// Semaphore that of the probe's semaphore (0: none), all as linked: a
	// prelinked file has moved by the difference of Base and the section.
	PC        uint64 `json:"pc"`
	Base      uint64 `json:"base"`
	Semaphore uint64 `json:"semaphore"`
	Provider  string `json:"provider"`
	Name      string `json:"name"`
	// Args is the argument specification in assembler operands: "8@%rdi -4@%esi".
	Args string `json:"args"`
}

// String reads "PROVIDER:NAME pc 0x… base 0x… semaphore 0x… args …".
func (s Stapsdt) String() string {
	return fmt.Sprintf("%s:%s pc %#x base %#x semaphore %#x args %s", s.Provider, s.Name, s.PC, s.Base,
		s.Semaphore, s.Args)
}

func (Stapsdt) value() {}

func decodeStapsdt(n Note) (Value, error) {
	r := newReader(n)
	s := Stapsdt{PC: r.word(), Base: r.word(), Semaphore: r.word()}
	if err := r.err(); err != nil {
		return nil, err
	}
	// One copy for all three fields, since a file may have thousands of these notes.
	text := string(r.b)
	for _, to := range []*string{&s.Provider, &s.Name, &s.Args} {
		var ok bool
		if *to, text, ok = strings.Cut(text, "\x00"); !ok {
			return nil, errors.New("provider, name or arguments are not terminated")
		}
	}
	if s.Provider == "" || s.Name == "" {
		return nil, errors.New("provider or name is empty")
	}
	return s, nil
}

// fdoSpec returns the spec of a note of systemd's specifications,
// systemd.io/ELF_PACKAGE_METADATA and systemd.io/ELF_DLOPEN_METADATA.
func fdoSpec(typ uint32) spec {
	switch typ {
	case 0xcafe1a7e:
		return spec{"package", decodePackage}
	case 0x407c0c0a:
		return spec{"dlopen", decodeDlopen}
	}
	return spec{}
}

// Package describes the distribution package that a file was built for.
type Package struct {
	Type         string `json:"type,omitempty"`
	OS           string `json:"os,omitempty"`
	OSVersion    string `json:"osVersion,omitempty"`
	Name         string `json:"name,omitempty"`
	Version      string `json:"version,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	OSCPE        string `json:"osCpe,omitempty"`
	AppCPE       string `json:"appCpe,omitempty"`
	DebugInfoURL string `json:"debugInfoUrl,omitempty"`
	// JSON is the note's text, with all its other fields.
	JSON string `json:"-"`
}

// String returns the note's JSON text.
func (p Package) String() string { return p.JSON }

func (Package) value() {}

func decodePackage(n Note) (Value, error) {
	p := Package{JSON: cString(n.Desc)}
	if err := json.Unmarshal([]byte(p.JSON), &p); err != nil {
		return nil, err
	}
	return p, nil
}

// Dlopen lists the libraries that a file may load at run time.
type Dlopen []DlopenEntry

// DlopenEntry is one optional dependency.
type DlopenEntry struct {
	Soname      []string `json:"soname"`
	Feature     string   `json:"feature,omitempty"`
	Description string   `json:"description,omitempty"`
	// Priority is "required", "recommended" or "suggested".
	Priority string `json:"priority,omitempty"`
}

// String reads "libelf.so.1 libelf.so (elf, suggested); …".
func (d Dlopen) String() string {
	parts := make([]string, len(d))
	for i, e := range d {
		parts[i] = fmt.Sprintf("%s (%s, %s)", strings.Join(e.Soname, " "), e.Feature, e.Priority)
	}
	return strings.Join(parts, "; ")
}

func (Dlopen) value() {}

func decodeDlopen(n Note) (Value, error) {
	var d Dlopen
	if err := json.Unmarshal([]byte(cString(n.Desc)), &d); err != nil {
		return nil, err
	}
	return d, nil
}
