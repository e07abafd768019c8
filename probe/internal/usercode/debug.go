package usercode

import (
	"debug/elf"
	"runtime/debug"

	"github.com/borescope/borescope/internal/dwarf"
	"github.com/borescope/borescope/internal/elffile"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/internal/userfile"
)

// Debug is the debug information of a file: its own, or that of its separate debug file, and of the
// files with split parts. It is valid as long as the file, until it is closed.
type Debug struct {
	f       *elffile.File // that has the sections; nil: there is none
	machine elf.Machine
	find    *elffile.DebugFinder
	opened  []*elffile.File
}

// OpenDebug finds the debug information of a file.
func OpenDebug(f *elffile.File, find *elffile.DebugFinder) *Debug {
	d := &Debug{f: f, machine: f.Machine, find: find}
	if f.DebugSection("info") != nil {
		return d
	}
	if d.f = find.Find(f, f.BuildID()); d.f != nil {
		d.opened = append(d.opened, d.f)
		d.f.LayOutAs(f)
	}
	return d
}

// WithDebug calls f with the debug information of a file, as userfile.WithELF does.
func WithDebug(e *env.Env, path string, f func(*Debug) error) (err error) {
	file, closer, err := userfile.OpenELF(e, userfile.Sources{}, path)
	if err != nil {
		return err
	}
	defer closer.Close()
	defer file.Close()
	defer elffile.Catch(debug.SetPanicOnFault(true), &err)
	d := OpenDebug(file, userfile.DebugFinder(e, path, closer))
	defer d.Close()
	return f(d)
}

// Close closes the files other than the one that OpenDebug was given.
func (d *Debug) Close() {
	if d == nil {
		return
	}
	for _, f := range d.opened {
		f.Close()
	}
	d.f, d.opened = nil, nil
}

// has reports whether there is a section .debug_NAME.
func (d *Debug) has(name string) bool { return d.f != nil && d.f.DebugSection(name) != nil }

// Some reports whether the file has debug information.
func (d *Debug) Some() bool { return d.has("info") }

// read reads the DWARF. What is decoded from it is bounded, because the file may be malicious. All
// functions of libc with their types take 43 MB; its debug file is compressed to 4 MB.
func (d *Debug) read() (*dwarf.Data, error) {
	if d.f == nil {
		return nil, dwarf.ErrNone
	}
	return dwarf.New(d.f, nil, max(46<<20, 5*d.f.Stored()))
}

// whole reads the DWARF with its split parts.
func (d *Debug) whole() (*dwarf.Data, error) {
	data, err := d.read()
	if err == nil {
		data.OpenSplit(d.find, func(f *elffile.File) { d.opened = append(d.opened, f) })
	}
	return data, err
}
