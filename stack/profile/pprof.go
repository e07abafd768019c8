package profile

import (
	"io"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/borescope/borescope/stack"
)

// WritePprof writes the profile in pprof's format (gzip-compressed profile.proto), which
// "go tool pprof" opens. Frames keep their addresses, mappings, build-ids, source positions
// and inlined functions. The command, the process, the thread and the stop reason of an
// incomplete stack are labels. The same profile gives the same bytes.
func (p *Profile) WritePprof(w io.Writer) error {
	if err := p.check(); err != nil {
		return err
	}
	b := pprofBuilder{
		out: &profile.Profile{
			PeriodType:    pprofType(p.PeriodType),
			Period:        p.Period,
			DurationNanos: p.Duration.Nanoseconds(),
		},
		mappings:  make(map[Mapping]*profile.Mapping),
		functions: make(map[pprofFunction]*profile.Function),
		locations: make(map[pprofPlace][]*pprofLocation),
		byFrame:   make(map[*NamedFrame]*profile.Location),
	}
	if !p.Time.IsZero() {
		b.out.TimeNanos = p.Time.UnixNano()
	}
	for _, c := range p.Comments {
		b.out.Comments = append(b.out.Comments, validUTF8(c))
	}
	for _, t := range p.types() {
		b.out.SampleType = append(b.out.SampleType, pprofType(t))
	}
	for i := range p.Samples {
		b.sample(&p.Samples[i])
	}
	if err := b.out.CheckValid(); err != nil {
		return err
	}
	return b.out.Write(w)
}

func pprofType(t ValueType) *profile.ValueType {
	return &profile.ValueType{Type: validUTF8(t.Type), Unit: validUTF8(t.Unit)}
}

type pprofFunction struct{ name, system, file string }

type pprofPlace struct {
	m    *profile.Mapping
	addr uint64
}

type pprofLocation struct {
	frame *NamedFrame
	loc   *profile.Location
}

// pprofBuilder gives equal mappings, functions and locations one number each.
type pprofBuilder struct {
	out       *profile.Profile
	mappings  map[Mapping]*profile.Mapping
	functions map[pprofFunction]*profile.Function
	locations map[pprofPlace][]*pprofLocation
	byFrame   map[*NamedFrame]*profile.Location
	noLines   map[string]bool // comments about files without lines
}

func (b *pprofBuilder) sample(s *Sample) {
	out := &profile.Sample{Value: s.Values}
	for _, fr := range s.Frames {
		out.Location = append(out.Location, b.location(fr))
	}
	str := func(key, value string) {
		key, value = validUTF8(key), validUTF8(value)
		if out.Label == nil {
			out.Label = make(map[string][]string)
		}
		out.Label[key] = append(out.Label[key], value)
	}
	num := func(key string, n int64, unit string) {
		key, unit = validUTF8(key), validUTF8(unit)
		if out.NumLabel == nil {
			out.NumLabel = make(map[string][]int64)
			out.NumUnit = make(map[string][]string)
		}
		out.NumLabel[key] = append(out.NumLabel[key], n)
		out.NumUnit[key] = append(out.NumUnit[key], unit)
	}
	if s.Comm != "" {
		str("comm", s.Comm)
	}
	if s.PID != 0 {
		num("pid", int64(s.PID), "")
	}
	if s.TID != 0 {
		num("tid", int64(s.TID), "")
	}
	if !s.Stopped.Whole() && s.Stopped != stack.StopUnknown {
		str("stack_end", s.Stopped.String())
	}
	for _, l := range s.Labels {
		if l.Str != "" {
			str(l.Key, l.Str)
		} else {
			num(l.Key, l.Num, l.Unit)
		}
	}
	b.out.Sample = append(b.out.Sample, out)
}

func (b *pprofBuilder) location(fr *NamedFrame) *profile.Location {
	if l := b.byFrame[fr]; l != nil {
		return l
	}
	// Two processes may map one file at the same place yet have different code
	// there (JIT), so that equal addresses are one location only with equal names.
	place := pprofPlace{b.mapping(fr.Mapping), fr.LookupPC()}
	for _, known := range b.locations[place] {
		if sameFunctions(known.frame.Functions, fr.Functions) {
			b.byFrame[fr] = known.loc
			return known.loc
		}
	}
	l := &profile.Location{ID: uint64(len(b.out.Location) + 1), Mapping: place.m, Address: place.addr}
	for _, fn := range fr.Functions {
		if m := place.m; m != nil {
			m.HasFunctions = true
			m.HasFilenames = m.HasFilenames || fn.File != ""
			m.HasLineNumbers = m.HasLineNumbers || fn.Line != 0
			m.HasInlineFrames = m.HasInlineFrames || len(fr.Functions) > 1
		}
		b.noLine(fr, &fn)
		l.Line = append(l.Line,
			profile.Line{Function: b.function(fn), Line: int64(fn.Line), Column: int64(fn.Column)})
	}
	b.out.Location = append(b.out.Location, l)
	b.locations[place] = append(b.locations[place], &pprofLocation{fr, l})
	b.byFrame[fr] = l
	return l
}

// noLine adds the comment that says why functions of a file have no lines, once.
func (b *pprofBuilder) noLine(fr *NamedFrame, fn *Function) {
	if fn.NoLine == "" || fr.Mapping == nil {
		return
	}
	note := validUTF8(fr.Mapping.File + ": no lines: " + fn.NoLine)
	if !b.noLines[note] {
		if b.noLines == nil {
			b.noLines = make(map[string]bool)
		}
		b.noLines[note] = true
		b.out.Comments = append(b.out.Comments, note)
	}
}

func sameFunctions(a, b []Function) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (b *pprofBuilder) mapping(m *Mapping) *profile.Mapping {
	if m == nil {
		return nil
	}
	out := b.mappings[*m]
	if out == nil {
		out = &profile.Mapping{
			ID: uint64(len(b.out.Mapping) + 1), Start: m.Start, Limit: m.Limit, Offset: m.Offset,
			File: validUTF8(m.File), BuildID: validUTF8(m.BuildID),
		}
		b.mappings[*m] = out
		b.out.Mapping = append(b.out.Mapping, out)
	}
	return out
}

func (b *pprofBuilder) function(fn Function) *profile.Function {
	key := pprofFunction{fn.Name, fn.SystemName, fn.File}
	if key.system == "" {
		key.system = fn.Name
	}
	out := b.functions[key]
	if out == nil {
		out = &profile.Function{
			ID: uint64(len(b.out.Function) + 1), Name: validUTF8(key.name),
			SystemName: validUTF8(key.system), Filename: validUTF8(key.file),
		}
		b.functions[key] = out
		b.out.Function = append(b.out.Function, out)
	}
	return out
}

// validUTF8 is s as strings of proto3 have to be: U+FFFD stands for runs of bytes that
// are no UTF-8.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
