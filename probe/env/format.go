package env

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strconv"
	"strings"

	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/internal/tracefs"
)

// Format is the content of a tracepoint's format file, which describes its record
// (/sys/kernel/tracing/events/GROUP/NAME/format, written by f_show in
// kernel/trace/trace_events.c). It is plain data.
type Format struct {
	// Group and Name are the tracepoint's. ParseFormat leaves Group empty, because the
	// file does not have it.
	Group, Name string
	// ID is the event's number, for perf_event_open.
	ID int
	// Fields are the record's fields in the order of the file; the first ones
	// are common to all tracepoints.
	Fields []Field
	// Print is the format's "print fmt" line, unchanged.
	Print string
}

// Field is a field of a tracepoint's record.
type Field struct {
	// Name is the field's name, without array bounds.
	Name string
	// Type is the C type as the file spells it, without array bounds:
	// "char", "unsigned long", "const char *".
	Type string
	// Elems is the number of array elements, -1 for no array.
	Elems int
	// Offset and Size are where the field is in the record, in bytes. For a dynamic array
	// they are those of the descriptor: a u32 with offset and length.
	Offset, Size int
	// Signed is set on signed integers, as the kernel's compiler saw them.
	Signed bool
	// Common is set on the fields that all tracepoints share. BPF programs
	// may not read them.
	Common bool
	// DataLoc and RelLoc are set on a dynamic array, whose descriptor has an offset from
	// the record's start, or from the end of the descriptor.
	DataLoc, RelLoc bool
}

// Limits of a format file. The kernel's longest has some 200 lines, and records have at most
// PERF_MAX_TRACE_SIZE (8192) bytes.
const (
	maxFormatFile   = 1 << 20
	maxFormatFields = 4096
	maxRecord       = 1 << 16
)

// ParseFormat parses a tracepoint's format file. Errors name the line.
func ParseFormat(r io.Reader) (*Format, error) {
	f := &Format{}
	sc := bufio.NewScanner(io.LimitReader(r, maxFormatFile))
	sc.Buffer(nil, maxFormatFile)
	common := true
	for n := 1; sc.Scan(); n++ {
		line := sc.Text()
		var err error
		switch t := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "name: "):
			f.Name = line[len("name: "):]
		case strings.HasPrefix(line, "ID: "):
			f.ID, err = strconv.Atoi(line[len("ID: "):])
			if err != nil || f.ID < 0 {
				err = fmt.Errorf("bad ID %q", line[len("ID: "):])
			}
		case strings.HasPrefix(line, "print fmt: "):
			f.Print = line[len("print fmt: "):]
		case strings.HasPrefix(t, "field:"):
			var field Field
			field, err = parseField(t)
			field.Common = common && strings.HasPrefix(field.Name, "common_")
			common = field.Common
			f.Fields = append(f.Fields, field)
			if len(f.Fields) > maxFormatFields {
				err = fmt.Errorf("more than %d fields", maxFormatFields)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("tracepoint format:%d: %w", n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("tracepoint format: %w", err)
	}
	if f.Name == "" || f.ID == 0 {
		return nil, errors.New("tracepoint format: it names no event, or no ID")
	}
	return f, nil
}

// parseField parses "field:TYPE NAME;	offset:8;	size:16;	signed:0;".
func parseField(t string) (Field, error) {
	f := Field{Elems: -1}
	have := 0
	for item := range strings.SplitSeq(t, ";") {
		k, v, ok := strings.Cut(strings.TrimSpace(item), ":")
		if !ok {
			continue
		}
		var err error
		switch k {
		case "field":
			err = f.declare(v)
		case "offset":
			f.Offset, err = boundedInt(v, maxRecord)
		case "size":
			f.Size, err = boundedInt(v, maxRecord)
		case "signed":
			f.Signed = v == "1"
		default:
			continue
		}
		if err != nil {
			return f, fmt.Errorf("bad %s %q: %w", k, v, err)
		}
		have++
	}
	if have < 3 {
		return f, fmt.Errorf("want field, offset and size in %q", t)
	}
	return f, nil
}

func boundedInt(t string, limit int) (int, error) {
	n, err := strconv.Atoi(t)
	if err != nil {
		return 0, errors.New("no number")
	}
	if n < 0 || n > limit {
		return 0, fmt.Errorf("not within 0 to %d", limit)
	}
	return n, nil
}

// declare parses a C declaration: "char comm[16]", "__data_loc char[] name",
// "const char * filename".
func (f *Field) declare(decl string) error {
	decl = strings.TrimSpace(decl)
	for _, p := range []struct {
		word string
		mark *bool
	}{{"__data_loc ", &f.DataLoc}, {"__rel_loc ", &f.RelLoc}} {
		if rest, ok := strings.CutPrefix(decl, p.word); ok {
			*p.mark, decl = true, rest
		}
	}
	i := strings.LastIndexAny(decl, " *\t")
	if i < 0 {
		return errors.New("no name")
	}
	f.Type, f.Name = strings.TrimSpace(decl[:i+1]), decl[i+1:]
	if name, bound, ok := strings.Cut(f.Name, "["); ok {
		f.Name = name
		// The bound may be a macro's name, or a sum: then the size is used.
		f.Elems = 0
		if n, err := strconv.Atoi(strings.TrimSuffix(bound, "]")); err == nil && n >= 0 &&
			n <= maxRecord {
			f.Elems = n
		}
	}
	if t, ok := strings.CutSuffix(f.Type, "[]"); ok {
		f.Type, f.Elems = strings.TrimSpace(t), 0
	}
	if f.Name == "" || f.Type == "" {
		return errors.New("no name or no type")
	}
	return nil
}

// Tracepoint returns the format of a tracepoint. For a name that does not exist the error
// lists the nearest ones and matches fs.ErrNotExist.
func (e *Env) Tracepoint(group, name string) (*Format, error) {
	return e.formats.do(group+":"+name, func() (*Format, error) {
		mount, err := tracefs.Need(e.root, e.live)
		if err != nil {
			return nil, err
		}
		defer mount.Close()
		f, err := e.readFormat(mount.Path, group, name)
		if errors.Is(err, fs.ErrNotExist) && isName(group, name) {
			err = tracefs.Missing(e.root, mount.Path, group, name)
		}
		return f, err
	})
}

// ReadTracepoints reads the formats of the tracepoints in a list of groups and names, for later
// calls of Tracepoint. It ignores those that cannot be read. It finds tracefs once, which takes
// more time than reading a format.
func (e *Env) ReadTracepoints(list iter.Seq2[string, string]) {
	mount, err := tracefs.Need(e.root, e.live)
	if err != nil {
		return
	}
	defer mount.Close()
	for group, name := range list {
		if f, err := e.readFormat(mount.Path, group, name); err == nil {
			_, _ = e.formats.do(group+":"+name, func() (*Format, error) { return f, nil })
		}
	}
}

// isName reports whether a tracepoint can have this group and name.
func isName(group, name string) bool {
	return fs.ValidPath(group+"/"+name) && !strings.Contains(group, "/") && !strings.Contains(name, "/")
}

// readFormat reads a format in tracefs's directory.
func (e *Env) readFormat(dir, group, name string) (*Format, error) {
	if !isName(group, name) {
		return nil, notexist.Errorf("no such tracepoint")
	}
	f, err := e.root.Open(path.Join(dir, "events", group, name, "format"))
	if err != nil {
		return nil, fmt.Errorf("tracepoint format: %w", err)
	}
	defer f.Close()
	format, err := ParseFormat(f)
	if err != nil {
		return nil, err
	}
	format.Group = group
	return format, nil
}
