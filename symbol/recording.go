package symbol

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Recording contains the frames that resolvers returned, by process and address, and those of a
// Timed by the state of the process too. It returns the same frames again on any machine,
// without the files and processes that they came from. A live tool wraps its resolvers with
// RecordKernel and RecordProcess and writes the recording at its end; a replay reads it and uses
// Kernel and Process. The zero value is an empty recording. It is safe for concurrent use.
//
// The format is JSON lines. The first is
//
//	{"format":"borescope-symbols","version":2}
//
// and each other one contains the frames of one address: "p" the pid and "s" the start time
// (both left out for the kernel), "t" the bounds of the state if it has a time, "a" the address
// in hexadecimal, "f" the frames, innermost first, with the fields of Frame in short:
//
//	n name   o offset   z size     m module   x module offset (hex)   b build-id
//	f file   l line     c column   k kind     q confidence   r reason  i inlined
//
// Numbers are written in decimal, and fields that are zero left out. Lines are in the order of
// kernel, then pid, start time, state and address, so that equal recordings are equal bytes.
// Version 1 has no states, and a recording without any is written as such.
type Recording struct {
	mu     sync.Mutex
	spaces map[int][]*space // guarded by mu: by pid, in the order of their keys
}

// spaceKey is an address space: pid 0 is the kernel.
type spaceKey struct {
	pid   int
	start uint64
	// timed is set for the space of a State, and from and to are its bounds.
	timed    bool
	from, to uint64
}

// compare orders the spaces of a process by their states, after the one without a time.
func (k spaceKey) compare(o spaceKey) int {
	c := cmp.Or(cmp.Compare(k.pid, o.pid), cmp.Compare(k.start, o.start))
	if c == 0 && k.timed != o.timed {
		if c = 1; o.timed {
			c = -1
		}
	}
	return cmp.Or(c, cmp.Compare(k.from, o.from), cmp.Compare(k.to, o.to))
}

// space contains the frames of one address space, by address. The callers' Index is not kept.
type space struct {
	key    spaceKey
	frames map[uint64][]Frame
}

// RecordKernel returns a resolver that returns the frames of r and records them as the
// kernel's.
func (rec *Recording) RecordKernel(r Resolver) Resolver {
	return &recorder{rec, spaceKey{}, r}
}

// RecordProcess returns a resolver that returns the frames of r and records them as those
// of a process: its pid, above 0, and its start time, or 0. It is a Timed: of a *Process and of a
// Timed it records the states that During returns, with the start times that it is called with.
func (rec *Recording) RecordProcess(pid int, start uint64, r Resolver) Resolver {
	return &recorder{rec, spaceKey{pid: pid, start: start}, r}
}

type recorder struct {
	rec *Recording
	key spaceKey
	r   Resolver
}

// During implements Timed.
func (r *recorder) During(start, first, last uint64) (Resolver, State) {
	switch r.r.(type) {
	case *Process, Timed:
	default:
		return r, State{}
	}
	names, st := During(r.r, start, first, last)
	if st.from == timeless {
		return r, st
	}
	key := spaceKey{pid: r.key.pid, start: start, timed: true, from: st.from, to: st.to}
	return &recorder{r.rec, key, names}, st
}

// Resolve implements Resolver.
func (r *recorder) Resolve(dst []Frame, pcs []uint64) []Frame {
	n := len(dst)
	dst = r.r.Resolve(dst, pcs)
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	s := r.rec.space(r.key)
	for i := n; i < len(dst); {
		j := i + 1
		for j < len(dst) && dst[j].Index == dst[i].Index {
			j++
		}
		if k := dst[i].Index; k >= 0 && k < len(pcs) {
			s.add(pcs[k], dst[i:j])
		}
		i = j
	}
	return dst
}

// find returns where a space is among those of its pid, or belongs. The caller holds mu.
func (rec *Recording) find(k spaceKey) (at int, found bool) {
	return slices.BinarySearchFunc(rec.spaces[k.pid], k, func(s *space, k spaceKey) int { return s.key.compare(k) })
}

// space returns a space, which it adds if it is new. The caller holds mu.
func (rec *Recording) space(k spaceKey) *space {
	i, found := rec.find(k)
	if !found {
		if rec.spaces == nil {
			rec.spaces = map[int][]*space{}
		}
		rec.spaces[k.pid] = slices.Insert(rec.spaces[k.pid], i, &space{k, map[uint64][]Frame{}})
	}
	return rec.spaces[k.pid][i]
}

// add keeps the frames of an address that were given first: a replay can't distinguish the
// first lookup from the second.
func (s *space) add(pc uint64, frames []Frame) {
	if _, ok := s.frames[pc]; ok {
		return
	}
	frames = slices.Clone(frames)
	for i := range frames {
		frames[i].Index = 0
	}
	s.frames[pc] = frames
}

// Kernel returns a resolver that returns the recorded frames of kernel addresses.
func (rec *Recording) Kernel() Resolver { return &replay{rec, spaceKey{}} }

// Process returns a resolver that returns the recorded frames of a process. If start is 0, or
// nothing was recorded for that start time, it uses the process with that pid and the latest
// start time. The resolver is a Timed. Without a time, it has what was recorded without one.
func (rec *Recording) Process(pid int, start uint64) Resolver {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	key := spaceKey{pid: pid, start: start}
	if _, found := rec.find(key); !found {
		for _, s := range rec.spaces[pid] {
			if !s.key.timed {
				key = s.key
			}
		}
	}
	return &replay{rec, key}
}

// During implements Timed. If no state of the process was recorded, it returns r.
func (r *replay) During(start, first, last uint64) (Resolver, State) {
	if first == 0 && last == 0 {
		return r, State{from: timeless, to: timeless}
	}
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	last = max(first, last)
	best, some := spaceKey{pid: r.key.pid, start: start, timed: true}, false
	for _, s := range r.rec.spaces[r.key.pid] {
		k := s.key
		if !k.timed || k.start != start {
			continue
		}
		some = true
		if k.from <= first && k.to <= last {
			best = k
		}
	}
	if !some {
		return r, State{}
	}
	return &replay{r.rec, best}, State{from: best.from, to: best.to}
}

type replay struct {
	rec *Recording
	key spaceKey
}

// Resolve implements Resolver. An address that was not recorded has no mapping.
func (r *replay) Resolve(dst []Frame, pcs []uint64) []Frame {
	r.rec.mu.Lock()
	defer r.rec.mu.Unlock()
	var recorded map[uint64][]Frame
	if i, found := r.rec.find(r.key); found {
		recorded = r.rec.spaces[r.key.pid][i].frames
	}
	for i, pc := range pcs {
		frames := recorded[pc]
		if frames == nil {
			dst = append(dst, Frame{Index: i, ModuleOffset: pc, Reason: ReasonNoMapping})
			continue
		}
		n := len(dst)
		dst = append(dst, frames...)
		for k := n; k < len(dst); k++ {
			dst[k].Index = i
		}
	}
	return dst
}

const (
	recordingFormat  = "borescope-symbols"
	recordingVersion = 2
	timelessVersion  = 1 // has no states
)

type recordingHeader struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

// recordLine is one address of a recording.
type recordLine struct {
	PID    int           `json:"p,omitempty"`
	Start  uint64        `json:"s,omitempty"`
	Time   *[2]uint64    `json:"t,omitempty"`
	Addr   string        `json:"a"`
	Frames []recordFrame `json:"f"`
}

type recordFrame struct {
	Name         string     `json:"n,omitempty"`
	Offset       uint64     `json:"o,omitempty"`
	Size         uint64     `json:"z,omitempty"`
	Module       string     `json:"m,omitempty"`
	ModuleOffset string     `json:"x,omitempty"`
	BuildID      string     `json:"b,omitempty"`
	File         string     `json:"f,omitempty"`
	Line         int        `json:"l,omitempty"`
	Column       int        `json:"c,omitempty"`
	Kind         Kind       `json:"k,omitempty"`
	Confidence   Confidence `json:"q,omitempty"`
	Reason       Reason     `json:"r,omitempty"`
	NoLine       Reason     `json:"nl,omitempty"`
	Inlined      bool       `json:"i,omitempty"`
}

// WriteTo writes the recording. It implements io.WriterTo.
func (rec *Recording) WriteTo(w io.Writer) (int64, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	cw := &countWriter{w: w}
	bw := bufio.NewWriter(cw)
	enc := json.NewEncoder(bw)
	enc.SetEscapeHTML(false)
	var spaces []*space
	for _, pid := range slices.Sorted(maps.Keys(rec.spaces)) {
		spaces = append(spaces, rec.spaces[pid]...)
	}
	version := timelessVersion
	if slices.ContainsFunc(spaces, func(s *space) bool { return s.key.timed }) {
		version = recordingVersion
	}
	if err := enc.Encode(recordingHeader{recordingFormat, version}); err != nil {
		return cw.n, err
	}
	for _, s := range spaces {
		addrs := make([]uint64, 0, len(s.frames))
		for a := range s.frames {
			addrs = append(addrs, a)
		}
		slices.Sort(addrs)
		for _, a := range addrs {
			if err := enc.Encode(newRecordLine(s.key, a, s.frames[a])); err != nil {
				return cw.n, err
			}
		}
	}
	err := bw.Flush()
	return cw.n, err
}

func newRecordLine(k spaceKey, addr uint64, frames []Frame) *recordLine {
	l := &recordLine{PID: k.pid, Start: k.start, Addr: strconv.FormatUint(addr, 16)}
	if k.timed {
		l.Time = &[2]uint64{k.from, k.to}
	}
	for i := range frames {
		f := &frames[i]
		r := recordFrame{
			Name: valid(f.Name), Offset: f.Offset, Size: f.Size, Module: valid(f.Module), BuildID: f.BuildID,
			File: valid(f.File), Line: f.Line, Column: f.Column,
			Kind: f.Kind, Confidence: f.Confidence, Reason: f.Reason, NoLine: f.NoLine, Inlined: f.Inlined,
		}
		if f.ModuleOffset != 0 {
			r.ModuleOffset = strconv.FormatUint(f.ModuleOffset, 16)
		}
		l.Frames = append(l.Frames, r)
	}
	return l
}

// rawPrefix marks a string that is not UTF-8 and is written byte for byte as
// the Unicode code points of the same numbers.
const rawPrefix = "\x00"

// valid escapes bytes that JSON cannot represent: names and paths may contain any bytes.
func valid(s string) string {
	if strings.ToValidUTF8(s, "") == s && !strings.HasPrefix(s, rawPrefix) {
		return s
	}
	r := make([]rune, 0, len(s)+1)
	r = append(r, 0)
	for i := range len(s) {
		r = append(r, rune(s[i]))
	}
	return string(r)
}

// invalid is the inverse of valid.
func invalid(s string) string {
	if !strings.HasPrefix(s, rawPrefix) {
		return s
	}
	var b []byte
	for _, r := range s[1:] {
		b = append(b, byte(r))
	}
	return string(b)
}

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// maxRecordLine bounds a line of a recording.
const maxRecordLine = 1 << 20

// ReadRecorded reads a recording that WriteTo wrote. It reads every version of the format
// up to its own, and returns an error for later ones.
func ReadRecorded(r io.Reader) (*Recording, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxRecordLine)
	rec := new(Recording)
	intern := map[string]string{}
	n := 1
	for ; sc.Scan(); n++ {
		if n == 1 {
			var h recordingHeader
			if err := json.Unmarshal(sc.Bytes(), &h); err != nil || h.Format != recordingFormat {
				return nil, fmt.Errorf("symbol recording:1: not a recording of symbols")
			}
			if h.Version < 1 || h.Version > recordingVersion {
				return nil, fmt.Errorf("symbol recording:1: version %d is not known", h.Version)
			}
			continue
		}
		if err := rec.readLine(sc.Bytes(), intern); err != nil {
			return nil, fmt.Errorf("symbol recording:%d: %w", n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("symbol recording: %w", err)
	}
	if n == 1 {
		return nil, fmt.Errorf("symbol recording: %w", io.ErrUnexpectedEOF)
	}
	return rec, nil
}

func (rec *Recording) readLine(b []byte, intern map[string]string) error {
	var l recordLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	addr, err := strconv.ParseUint(l.Addr, 16, 64)
	if err != nil {
		return fmt.Errorf("bad address %q", l.Addr)
	}
	if len(l.Frames) == 0 || l.PID < 0 {
		return fmt.Errorf("address %s of process %d has no frames", l.Addr, l.PID)
	}
	str := func(s string) string {
		if t, ok := intern[s]; ok {
			return t
		}
		t := invalid(s)
		intern[s] = t
		return t
	}
	frames := make([]Frame, len(l.Frames))
	for i := range l.Frames {
		r := &l.Frames[i]
		var x uint64
		if r.ModuleOffset != "" {
			if x, err = strconv.ParseUint(r.ModuleOffset, 16, 64); err != nil {
				return fmt.Errorf("bad module offset %q", r.ModuleOffset)
			}
		}
		frames[i] = Frame{
			Inlined: r.Inlined, Name: str(r.Name), Offset: r.Offset, Size: r.Size, Module: str(r.Module),
			ModuleOffset: x, BuildID: str(r.BuildID), File: str(r.File), Line: r.Line, Column: r.Column,
			Kind: r.Kind, Confidence: r.Confidence, Reason: r.Reason, NoLine: r.NoLine,
		}
	}
	key := spaceKey{pid: l.PID, start: l.Start}
	if t := l.Time; t != nil {
		if key.timed, key.from, key.to = true, t[0], t[1]; key.from > key.to {
			return fmt.Errorf("state of process %d from %d to %d", l.PID, key.from, key.to)
		}
	}
	rec.space(key).frames[addr] = frames
	return nil
}
