package profile

import (
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/borescope/borescope/stack"
)

// Profile is a set of samples with named stacks, from which every output format of this
// package is written. The code that walks the stacks and names the addresses fills it in.
// It is plain data.
type Profile struct {
	// SampleTypes are the types of a sample's values; empty means one count of samples.
	SampleTypes []ValueType
	// Samples are the stacks, in any order; equal ones may be merged or not.
	Samples []Sample
	// PeriodType and Period are the sampling interval: {"cpu", "nanoseconds"} and 10101010
	// at 99 Hz.
	PeriodType ValueType
	Period     int64
	// Time is the start of the measurement, Duration its length.
	Time     time.Time
	Duration time.Duration
	// Comments are kept by the formats that have a field for them.
	Comments []string
}

// ValueType is a kind of value and its unit, in pprof's words: {"samples",
// "count"}, {"cpu", "nanoseconds"}, {"alloc_space", "bytes"}.
type ValueType struct{ Type, Unit string }

// Sample is one stack with its measured values.
type Sample struct {
	// Frames is the stack, innermost first. Frames may be shared between
	// samples, which makes all formats smaller.
	Frames []*NamedFrame
	// Values has one value per sample type.
	Values []int64
	// Comm is the name of the thread, or of the process, as the caller chooses.
	Comm string
	// PID and TID are the process's and the thread's number, 0 if not known.
	PID, TID int
	// CPU is the processor. Only perf-script text shows it.
	CPU int
	// Time is the moment relative to some fixed point (the machine's start in perf's
	// samples); 0 where equal stacks were merged.
	Time time.Duration
	// Stopped is the reason why the stack ends.
	Stopped stack.StopReason
	// Labels are kept by pprof.
	Labels []Label
}

// Label is a property of a sample: a text, or a number if Str is empty.
type Label struct {
	Key  string
	Str  string
	Num  int64
	Unit string // of Num: "bytes"
}

// NamedFrame is a frame and the functions at its address.
type NamedFrame struct {
	stack.Frame
	// Functions are the functions at the address, innermost first: all but the last are
	// inlined into the one that follows. It is empty if no name is known.
	Functions []Function
	// Mapping is the mapping that holds the address, nil if not known. Frames of one
	// mapping share it by pointer.
	Mapping *Mapping
	// Kind is the kind of code.
	Kind FrameKind
	// Uncertain is set if the process mapped one file and then another at the address in the time of
	// the samples, or may have, so that the frame has no name.
	Uncertain bool
}

// Function is a name and a source position.
type Function struct {
	// Name is the demangled name.
	Name string
	// SystemName is the name in the symbol table, empty if it is Name.
	SystemName string
	// Offset is the distance of the address from the function's start, in bytes.
	Offset uint64
	// File, Line and Column are the source position; Line is 0 if not known.
	File   string
	Line   int
	Column int
	// NoLine is the reason why Line is 0, in words; empty if source positions were not asked
	// for. pprof has it as a comment for each file.
	NoLine string
}

// Mapping is a file, or a piece of the kernel, in an address space.
type Mapping struct {
	// Start and Limit bound the addresses; both 0 if not known.
	Start, Limit uint64
	// Offset is the file offset that Start maps.
	Offset uint64
	// File is the file's path, or a name in brackets: "[kernel]", "[vdso]".
	File string
	// BuildID is the GNU build-id in lower-case hex, if known.
	BuildID string
}

// FrameKind is the kind of code of a frame.
type FrameKind uint8

// The kinds of frame.
const (
	FrameUser   FrameKind = iota // a program's or a library's code
	FrameKernel                  // the kernel's
	FrameJIT                     // generated at run time
	FrameWaker                   // of the stack that woke the sampled thread up
)

// suffix is FlameGraph's annotation of a kind.
func (k FrameKind) suffix() string {
	switch k {
	case FrameKernel:
		return suffixKernel
	case FrameJIT:
		return suffixJIT
	case FrameWaker:
		return suffixWaker
	}
	return ""
}

// String returns "user", "kernel", "jit" or "waker".
func (k FrameKind) String() string {
	names := [...]string{"user", "kernel", "jit", "waker"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("kind(%d)", k)
}

// LeftOut returns how many samples, by their first value, have a stack that ends at a rule
// which the walker inside BPF leaves out (stack.StopLeftOut): by the file that has the rule,
// "" where it is not known. It is nil if there are none.
func (p *Profile) LeftOut() map[string]int64 {
	var files map[string]int64
	for i := range p.Samples {
		s := &p.Samples[i]
		if s.Stopped != stack.StopLeftOut {
			continue
		}
		if files == nil {
			files = make(map[string]int64)
		}
		file, n := "", int64(1)
		if len(s.Frames) > 0 {
			if m := s.Frames[len(s.Frames)-1].Mapping; m != nil {
				file = m.File
			}
		}
		if len(s.Values) > 0 {
			n = s.Values[0]
		}
		files[file] += n
	}
	return files
}

// Uncertain returns how many samples, by their first value, have a frame without a name because the
// process mapped one file and then another there in their time, or may have (NamedFrame.Uncertain).
func (p *Profile) Uncertain() (n int64) {
	for i := range p.Samples {
		s := &p.Samples[i]
		if !slices.ContainsFunc(s.Frames, func(f *NamedFrame) bool { return f.Uncertain }) {
			continue
		}
		if len(s.Values) > 0 {
			n += s.Values[0]
		} else {
			n++
		}
	}
	return n
}

// FoldOptions are the options of Profile.Folded. The zero value and nil begin every stack
// with the command name and annotate nothing.
type FoldOptions struct {
	// Value is the index of the value that is counted.
	Value int
	// NoComm leaves the command name out.
	NoComm bool
	// PID and TID append the numbers to the command name: "bash-12/13".
	PID, TID bool
	// Annotate marks frames by FlameGraph's suffixes: _[k] for kernel code, _[i] for
	// inlined functions, _[j] for generated code and _[w] for a waker's frames.
	Annotate bool
	// NoInline leaves inlined functions out.
	NoInline bool
	// Delimit puts a frame "-" between the kernel's frames and the program's.
	Delimit bool
	// Addresses writes frames without a name as addresses, "[libc.so.6+0x1234]", instead of
	// as files, "[libc.so.6]", which merge.
	Addresses bool
	// Incomplete puts a frame "[truncated]" below the outermost frame of stacks that end
	// before the thread's start, so that they are not taken for whole ones.
	Incomplete bool
}

// Folded merges the profile's samples into folded stacks. Samples that lack the
// value are left out.
func (p *Profile) Folded(opts *FoldOptions) *Folded {
	var o FoldOptions
	if opts != nil {
		o = *opts
	}
	f := new(Folded)
	var names []string
	for i := range p.Samples {
		s := &p.Samples[i]
		if o.Value < 0 || o.Value >= len(s.Values) {
			continue
		}
		names = s.fold(names[:0], &o)
		f.Add(names, s.Values[o.Value])
	}
	return f
}

// Timeline yields the profile's samples one by one in the order of their times,
// as folded stacks, for WriteFlameChart. The frames of a stack are valid until
// the next one. Samples that lack the value are left out.
func (p *Profile) Timeline(opts *FoldOptions) iter.Seq[FoldedStack] {
	var o FoldOptions
	if opts != nil {
		o = *opts
	}
	order := make([]int, len(p.Samples))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(p.Samples[a].Time, p.Samples[b].Time)
	})
	return func(yield func(FoldedStack) bool) {
		var names []string
		for _, i := range order {
			s := &p.Samples[i]
			if o.Value < 0 || o.Value >= len(s.Values) {
				continue
			}
			names = s.fold(names[:0], &o)
			if !yield(FoldedStack{Frames: names, Count: s.Values[o.Value]}) {
				return
			}
		}
	}
}

// fold appends the names of a stack, root first.
func (s *Sample) fold(dst []string, o *FoldOptions) []string {
	if !o.NoComm {
		dst = append(dst, s.title(o))
	}
	if o.Incomplete && len(s.Frames) > 0 && !s.Stopped.Whole() && s.Stopped != stack.StopUnknown {
		dst = append(dst, "[truncated]")
	}
	var last *NamedFrame
	for _, fr := range slices.Backward(s.Frames) {
		if o.Delimit && last != nil && (last.Kind == FrameKernel) != (fr.Kind == FrameKernel) {
			dst = append(dst, "-")
		}
		last = fr
		if len(fr.Functions) == 0 {
			dst = append(dst, fr.annotate(fr.unknown(o.Addresses), o))
		}
		for i, fn := range slices.Backward(fr.Functions) {
			inlined := i < len(fr.Functions)-1
			switch {
			case inlined && o.NoInline:
			case inlined && o.Annotate:
				dst = append(dst, fn.Name+suffixInlined)
			case fn.Name == "":
				dst = append(dst, fr.annotate(fr.unknown(o.Addresses), o))
			default:
				dst = append(dst, fr.annotate(fn.Name, o))
			}
		}
	}
	return dst
}

func (s *Sample) title(o *FoldOptions) string {
	name := s.Comm
	if name == "" {
		name = "[unknown]"
	}
	switch {
	case o.TID:
		return name + "-" + strconv.Itoa(s.PID) + "/" + strconv.Itoa(s.TID)
	case o.PID:
		return name + "-" + strconv.Itoa(s.PID)
	}
	return name
}

func (fr *NamedFrame) annotate(name string, o *FoldOptions) string {
	if o.Annotate {
		return name + fr.Kind.suffix()
	}
	return name
}

// AppendNames appends the frame's functions to dst as text, innermost first. An inlined
// function is an element of its own; a frame without a name is its file, "[libc.so.6]", or
// "[unknown]". With offsets the function that holds the address has its distance from the
// function's start: "vfs_read+0x1c".
func (fr *NamedFrame) AppendNames(dst []string, offsets bool) []string {
	for i, fn := range fr.Functions {
		if offsets && i == len(fr.Functions)-1 {
			dst = append(dst, fmt.Sprintf("%s+%#x", fn.Name, fn.Offset+fr.PC-fr.LookupPC()))
		} else {
			dst = append(dst, fn.Name)
		}
	}
	if len(fr.Functions) == 0 {
		dst = append(dst, fr.unknown(false))
	}
	return dst
}

// unknown names a frame without a name by its file.
func (fr *NamedFrame) unknown(address bool) string {
	m := fr.Mapping
	if m == nil || m.File == "" {
		if address {
			return fmt.Sprintf("[0x%x]", fr.PC)
		}
		if fr.Uncertain {
			return "[uncertain]"
		}
		return unknownFrame
	}
	base := trimBrackets(path.Base(m.File))
	if address {
		return fmt.Sprintf("[%s+0x%x]", base, fr.LookupPC()-m.Start+m.Offset)
	}
	return "[" + base + "]"
}

func (fr *NamedFrame) module() string {
	if fr.Mapping == nil {
		return ""
	}
	return fr.Mapping.File
}

func trimBrackets(s string) string {
	if len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' {
		return s[1 : len(s)-1]
	}
	return s
}

// types returns the sample types, never none.
func (p *Profile) types() []ValueType {
	if len(p.SampleTypes) == 0 {
		return []ValueType{{"samples", "count"}}
	}
	return p.SampleTypes
}

// check reports samples that do not fit the sample types.
func (p *Profile) check() error {
	want := len(p.types())
	for i := range p.Samples {
		if got := len(p.Samples[i].Values); got != want {
			return fmt.Errorf("profile: sample %d has %d values for %d sample types", i, got, want)
		}
		for _, fr := range p.Samples[i].Frames {
			if fr == nil {
				return fmt.Errorf("profile: sample %d has a nil frame", i)
			}
		}
	}
	return nil
}
