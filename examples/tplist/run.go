package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/env"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/usdt"
)

// site is a USDT probe's site as -json prints it.
type site struct {
	Path      string `json:"path"`
	Provider  string `json:"provider"`
	Name      string `json:"name"`
	PC        uint64 `json:"pc"`
	Offset    uint64 `json:"offset"`
	Semaphore uint64 `json:"semaphore"`
	Args      []arg  `json:"args"`
	Nop       string `json:"nop,omitempty"`
	Error     string `json:"error,omitempty"`
}

type arg struct {
	Text   string `json:"text"`
	Size   int    `json:"size"`
	Signed bool   `json:"signed"`
	Float  bool   `json:"float"`
	Kind   string `json:"kind"`
	Reason string `json:"reason,omitempty"` // why it cannot be read at run time
}

// tracepoint is a kernel tracepoint as -json prints it.
type tracepoint struct {
	Category string   `json:"category"`
	Name     string   `json:"name"`
	Fields   []string `json:"fields,omitempty"`
}

// lister prints the probes that match a pattern.
type lister struct {
	w       *cli.Output
	json    bool
	verbose bool
	pattern string
	errs    []error
	line    []byte // buffer of the line that is being built
}

// run lists the probes of the files, directories and process in args or, without any, the
// kernel's tracepoints. It lists the others even if one of them cannot be read.
func run(ctx context.Context, args []string, stdout *cli.Output) error {
	flags := flag.NewFlagSet("tplist", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print one JSON object per site or tracepoint")
	verbose := flags.Bool("v", false, "print sites and arguments; fields of tracepoints")
	flags.BoolVar(verbose, "vv", false, "the same, as BCC's tool has it")
	pid := flags.Int("p", 0, "list the probes of a process")
	lib := flags.String("l", "",
		"list those of a `library` or program: a path, or a name that is looked up")
	if err := cli.Parse(flags, args, stdout); err != nil {
		return err
	}
	l := &lister{w: stdout.Buffered(), json: *asJSON, verbose: *verbose, pattern: "*"}
	files := flags.Args()
	if n := len(files); n > 0 {
		if pattern, place, ok := cutTarget(files[n-1]); ok {
			l.pattern, files = pattern, files[:n-1]
			switch {
			case place != "*" && *lib == "":
				*lib = place
			case place == "*" && len(files) == 0 && *lib == "" && *pid == 0:
				return cli.Usage("tplist", errors.New("usdt:* of which files? name one, or -p PID"))
			}
		} else if !isFile(files[n-1]) {
			l.pattern, files = files[n-1], files[:n-1]
		}
	}
	if _, err := path.Match(l.pattern, ""); err != nil {
		return fmt.Errorf("pattern %q: %w", l.pattern, err)
	}
	if *lib != "" {
		path, err := lookUp(*lib, libraries)
		if err != nil {
			return fmt.Errorf("-l %s: no such library or program: %w", *lib, err)
		}
		files = append(files, path)
	}
	switch {
	case *pid != 0:
		l.process(*pid)
	case len(files) == 0:
		l.kernel(probe.NewEnv(nil))
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.file(f)
	}
	return errors.Join(append(l.errs, l.w.Flush())...)
}

// libraries are the directories of libraries, Debian's among them.
var libraries = []string{
	"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib",
	"/usr/lib", "/usr/local/lib",
}

// lookUp returns the path of a library in dirs ("stdc++", "libc.so.6") or, if there is none,
// of a program.
func lookUp(name string, dirs []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range dirs {
		for _, file := range []string{
			name, name + ".so.*", "lib" + name + ".so.*",
			"lib" + name + ".so",
		} {
			paths, err := filepath.Glob(dir + "/" + file)
			if err != nil {
				return "", err
			}
			if i := slices.IndexFunc(paths, hasMagic); i >= 0 {
				return paths[i], nil
			}
		}
	}
	return exec.LookPath(name)
}

// cutTarget splits a word that is spelled as a target. It returns the pattern of "t:sched:*",
// or the pattern and the place of "usdt:libc:*", which may be "*". ok is false for other
// words.
func cutTarget(word string) (pattern, place string, ok bool) {
	kind, rest, _ := strings.Cut(word, ":")
	switch kind {
	case "t", "tracepoint":
		return rest, "", rest != ""
	case "u", "U", "usdt":
		place, pattern, _ = strings.Cut(rest, ":")
		return cmp.Or(pattern, "*"), place, place != ""
	}
	return "", "", false
}

// isFile reports whether a word is a file and not a pattern: patterns have no '/'.
func isFile(name string) bool {
	if strings.Contains(name, "/") {
		return true
	}
	_, err := os.Stat(name)
	return err == nil
}

func (l *lister) fail(err error) {
	if err != nil && len(l.errs) < 20 {
		l.errs = append(l.errs, err)
	}
}

// matches reports whether the pattern matches "provider:name" or the name alone.
func (l *lister) matches(provider, name string) bool {
	if l.pattern == "*" {
		return true
	}
	whole, _ := path.Match(l.pattern, provider+":"+name)
	part, _ := path.Match(l.pattern, name)
	return whole || part
}

// file lists a file, or all ELF files below a directory.
func (l *lister) file(name string) {
	st, err := os.Stat(name)
	if err != nil {
		l.fail(err)
		return
	}
	if !st.IsDir() {
		l.elf(name, true)
		return
	}
	l.fail(filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			l.fail(err)
		} else if d.Type().IsRegular() {
			l.elf(path, false)
		}
		return nil
	}))
}

// elf lists a file. Only if it was named is it an error that it is not an ELF file.
func (l *lister) elf(name string, named bool) {
	if !named && !hasMagic(name) {
		return
	}
	f, err := usdt.Open(name)
	if err != nil {
		l.fail(err)
		return
	}
	defer f.Close()
	sites, err := f.Sites()
	if err != nil {
		l.fail(fmt.Errorf("%s: %w", name, err))
	}
	l.sites(name, sites)
}

func hasMagic(name string) bool {
	f, err := elfnotes.Open(name)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// process lists the probes of the files that a process has mapped.
func (l *lister) process(pid int) {
	modules, err := usdt.Modules(pid, nil)
	l.fail(err)
	for _, m := range modules {
		l.fail(m.Err)
		l.sites(m.Path, m.Sites)
	}
}

// sites prints the sites of a file: as an object each, or by probe.
func (l *lister) sites(path string, sites []usdt.Site) {
	if l.json {
		for _, s := range sites {
			if l.matches(s.Provider, s.Name) {
				l.fail(l.w.JSON(describe(path, s)))
			}
		}
		return
	}
	for _, p := range usdt.Merge(sites) {
		if !l.matches(p.Provider, p.Name) {
			continue
		}
		b := append(append(l.line[:0], cli.Escape(path)...), ' ')
		b = append(append(append(b, cli.Escape(p.Provider)...), ':'), cli.Escape(p.Name)...)
		b = strconv.AppendUint(append(b, " [sema 0x"...), p.Sites[0].Semaphore, 16)
		l.line = append(b, "]\n"...)
		l.w.Raw().Write(l.line)
		if l.verbose {
			l.locations(p)
		}
	}
}

// locations prints the sites of a probe. It does not use fmt, because some files have
// thousands.
func (l *lister) locations(p usdt.Probe) {
	for i, s := range p.Sites {
		b := append(l.line[:0], "  location #"...)
		b = strconv.AppendInt(b, int64(i+1), 10)
		b = strconv.AppendUint(append(b, " 0x"...), s.PC, 16)
		b = append(append(b, " ("...), nop(s)...)
		b = strconv.AppendUint(append(b, " at offset 0x"...), s.Offset, 16)
		b = append(b, ")\n"...)
		if s.Err != nil {
			b = append(b, "    error: "+cli.Escape(s.Err.Error())+"\n"...)
		}
		for j, a := range s.Args {
			sign := " unsigned bytes @ "
			switch {
			case a.Float:
				sign = " float bytes @ "
			case a.Signed:
				sign = " signed bytes @ "
			}
			b = strconv.AppendInt(append(b, "    argument #"...), int64(j+1), 10)
			b = strconv.AppendInt(append(b, ' '), int64(a.Size), 10)
			b = append(append(b, sign...), cli.Escape(a.String())...)
			if a.Reason != usdt.ReasonNone {
				b = fmt.Appendf(b, " (%v)", a.Reason)
			}
			b = append(b, '\n')
		}
		l.line = b
		l.w.Raw().Write(b) // the last Flush returns the error too
	}
}

// nop names the kind of the instruction at a site.
func nop(s usdt.Site) string { return cmp.Or(s.Nop, "none") }

func describe(path string, s usdt.Site) site {
	d := site{
		Path: path, Provider: s.Provider, Name: s.Name, PC: s.PC, Offset: s.Offset,
		Semaphore: s.Semaphore, Args: []arg{}, Nop: nop(s),
	}
	for _, a := range s.Args {
		v := arg{Text: a.Text, Size: a.Size, Signed: a.Signed, Float: a.Float, Kind: a.Kind.String()}
		if a.Reason != usdt.ReasonNone {
			v.Reason = a.Reason.String()
		}
		d.Args = append(d.Args, v)
	}
	if s.Err != nil {
		d.Error = s.Err.Error()
	}
	return d
}

// kernel lists the kernel's tracepoints.
func (l *lister) kernel(machine *probe.Env) {
	list, done := probe.List("tracepoint:*:*", &probe.ListOptions{Env: machine})
	for found := range list {
		if t, ok := found.Target.(probe.Tracepoint); ok && l.matches(t.Group, t.Name) {
			l.tracepoint(machine, tracepoint{Category: t.Group, Name: t.Name})
		}
	}
	if err := done(); err != nil {
		l.fail(fmt.Errorf("kernel tracepoints: %w", err))
	}
}

func (l *lister) tracepoint(machine *probe.Env, t tracepoint) {
	if l.verbose {
		format, err := machine.Tracepoint(t.Category, t.Name)
		if err != nil {
			l.fail(err)
			return
		}
		t.Fields = fields(format)
	}
	if l.json {
		l.fail(l.w.JSON(t))
		return
	}
	l.w.Printf("%s:%s\n", t.Category, t.Name)
	for _, f := range t.Fields {
		l.w.Printf("    %s;\n", f)
	}
}

// fields returns the declarations of a record's fields, without those that every
// tracepoint has.
func fields(format *env.Format) (list []string) {
	for i := range format.Fields {
		f := &format.Fields[i]
		switch {
		case f.Common:
		case f.DataLoc:
			list = append(list, "__data_loc "+f.Type+"[] "+f.Name)
		case f.RelLoc:
			list = append(list, "__rel_loc "+f.Type+"[] "+f.Name)
		case f.Elems >= 0:
			list = append(list, fmt.Sprintf("%s %s[%d]", f.Type, f.Name, f.Elems))
		default:
			list = append(list, f.Type+" "+f.Name)
		}
	}
	return list
}
