package main

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/borescope/borescope/mapx/recording/hostfs"
	"github.com/borescope/borescope/probe/tool/cli"
	"github.com/borescope/borescope/stack"
	"github.com/borescope/borescope/stack/core"
	"github.com/borescope/borescope/stack/python"
	"github.com/borescope/borescope/symbol"
)

// maxFrames is more than the depth of any stack without runaway recursion.
const maxFrames = 4096

// thread is a thread as it is printed.
type thread struct {
	Core   string           `json:"core"`
	TID    int              `json:"tid"`
	Frames []frame          `json:"frames"`
	Reason stack.StopReason `json:"reason"`
}

type frame struct {
	PC      string            `json:"pc"`
	Name    string            `json:"name,omitempty"`
	Inlined bool              `json:"inlined,omitempty"`
	File    string            `json:"file,omitempty"`
	Line    int               `json:"line,omitempty"`
	Module  string            `json:"module,omitempty"`
	How     stack.FrameSource `json:"how"`
}

func run(args []string, stdout, stderr *cli.Output) error {
	fs := flag.NewFlagSet("corestack", flag.ContinueOnError)
	asJSON := fs.Bool("json", false, "print a JSON object per thread")
	python := fs.Bool("python", false,
		"show the frames of CPython 3.11 to 3.13 where its interpreter ran them")
	root := fs.String("root", "/", "look programs and libraries up below this `directory`")
	if err := cli.Parse(fs, args, stdout); err != nil {
		return err
	}
	if fs.NArg() == 0 {
		return errors.New("no core file given")
	}
	w := stdout.Buffered()
	names := newNamer(*root)
	defer names.close()
	for _, path := range fs.Args() {
		if err := printCore(w, stderr, path, names, *asJSON, *python); err != nil {
			return errors.Join(err, w.Flush())
		}
	}
	return w.Flush()
}

func printCore(w, stderr *cli.Output, path string, names *namer, asJSON, interpreted bool) error {
	c, err := core.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	root := hostfs.Dir(names.root)
	mods, err := c.Modules(root)
	if err != nil {
		stderr.Println("corestack:", err)
	}
	var interp *python.Interpreter
	if interpreted {
		if interp, err = python.OpenCore(c, root); err != nil {
			stderr.Println("corestack:", err)
		}
	}
	if !asJSON {
		w.Printf("PID %d - core %s (%s)\n", c.PID, path, c.Comm)
	}
	walker := &stack.CFIWalker{Modules: mods}
	frames := make([]stack.Frame, maxFrames)
	for i := range c.Threads {
		t := &c.Threads[i]
		n, end := walker.Walk(frames, &t.Regs, c)
		all := frames[:n]
		if interp != nil {
			all = withPython(all, t.TID, interp, end == stack.StopBottom, stderr)
		}
		out := thread{Core: path, TID: t.TID, Reason: end, Frames: names.name(all, mods, interp)}
		if asJSON {
			if err := w.JSON(out); err != nil {
				return err
			}
			continue
		}
		printThread(w, &out)
	}
	return nil
}

// withPython inserts a thread's interpreted frames among the native ones.
func withPython(native []stack.Frame, tid int, p *python.Interpreter, whole bool,
	stderr *cli.Output,
) []stack.Frame {
	all, err := p.Frames(slices.Clone(native), tid)
	if err != nil {
		stderr.Println("corestack:", err)
	}
	inLoop := func(f stack.Frame) bool { return p.InLoop(f.LookupPC()) }
	return python.Merge(nil, all, whole, inLoop)
}

func printThread(w *cli.Output, t *thread) {
	w.Printf("TID %d:\n", t.TID)
	for i, f := range t.Frames {
		w.Printf("#%-3d %s", i, f.PC)
		if f.Name != "" {
			w.Printf(" %s", f.Name)
		}
		if f.Inlined {
			w.Printf(" [inlined]")
		}
		if f.Module != "" {
			w.Printf(" - %s", f.Module)
		}
		if f.Line > 0 {
			w.Printf(" %s:%d", f.File, f.Line)
		}
		w.Println()
	}
	if t.Reason != stack.StopBottom {
		w.Printf("     (the stack ends here: %v)\n", t.Reason)
	}
}

// namer names addresses from the symbols of the mapped files.
type namer struct {
	root  string
	files map[string]*symbol.ELF
}

func newNamer(root string) *namer { return &namer{root: root, files: make(map[string]*symbol.ELF)} }

func (n *namer) close() {
	for _, f := range n.files {
		if f != nil {
			f.Close()
		}
	}
}

func (n *namer) name(frames []stack.Frame, mods *stack.Modules,
	interp *python.Interpreter,
) []frame {
	var out []frame
	for _, f := range frames {
		one := frame{PC: fmt.Sprintf("0x%016x", f.PC), How: f.Source}
		if f.Source == stack.SourceInterpreter {
			if code, err := interp.Code(f.PC); err == nil {
				one.Name, one.File, one.Line = code.Name, code.File, int(f.Line)
			}
			out = append(out, one)
			continue
		}
		m := mods.Find(f.LookupPC())
		if m == nil {
			out = append(out, one)
			continue
		}
		one.Module = m.Name
		e := n.open(m.Name)
		if e == nil || m.CFI == nil {
			out = append(out, one)
			continue
		}
		for _, s := range e.Resolve(nil, []uint64{f.LookupPC() - m.Bias}) {
			named := one
			named.Name, named.File, named.Line, named.Inlined = s.Name, s.File, s.Line, s.Inlined
			out = append(out, named)
		}
	}
	return out
}

// open returns a mapped file's symbols, nil if it has none that can be read.
func (n *namer) open(path string) *symbol.ELF {
	if e, ok := n.files[path]; ok {
		return e
	}
	var e *symbol.ELF
	if filepath.IsAbs(path) {
		if opened, err := symbol.OpenELF(filepath.Join(n.root, path), nil); err == nil {
			e = opened
		}
	}
	n.files[path] = e
	return e
}
