package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Mapping is a line of /proc/PID/maps: proc_pid_maps(5), fs/proc/task_mmu.c.
type Mapping struct {
	Start, End uint64 // addresses, from Start to before End
	Offset     uint64 // into the file, in bytes
	Dev        uint64 // major<<32 | minor, 0 without a file
	Inode      uint64 // 0 without a file
	// Path is the file's path in the process's root, a name in brackets ("[vdso]", "[heap]",
	// "[anon:…]"), or empty. The kernel writes newlines in it as "\012".
	Path string
	// Deleted is set if the kernel reports the path as deleted. Path does not contain the
	// suffix " (deleted)".
	Deleted bool
	Perm    Perm
}

// Perm is a mapping's protection.
type Perm uint8

// The bits of Perm.
const (
	Read Perm = 1 << iota
	Write
	Exec
	Shared
)

// maxMapsLine bounds the length of a line: PATH_MAX with every byte escaped, and the numbers
// before it.
const maxMapsLine = 4*4096 + 256

// ReadMaps calls f for every mapping, in order, until f returns false. Path remains valid
// after the call. A malformed line is an error; f has been called for those before it.
func ReadMaps(r io.Reader, f func(*Mapping) bool) error {
	var in interner
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), maxMapsLine)
	n := 0
	for sc.Scan() {
		n++
		var m Mapping
		if err := in.parse(&m, sc.Bytes()); err != nil {
			return fmt.Errorf("maps:%d: %w", n, err)
		}
		if !f(&m) {
			return nil
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("maps:%d: %w", n+1, err)
	}
	return nil
}

// MaxMaps is the most that is read of a process's mappings at a time, in bytes, and MapsLine
// the length of a line without its path. Most processes have less than 100 KB. There may be a
// million mappings (vm.max_map_count), each with a path of 4 KB.
const (
	MaxMaps  = 32 << 20
	MapsLine = 73
)

// EachMapping calls f for the mappings of a process of this machine, like ReadMaps, up to
// MaxMaps.
func EachMapping(pid int, f func(*Mapping) bool) error {
	file, err := DirFS("/").Open(path(pid, "maps"))
	if err != nil {
		return err
	}
	defer file.Close()
	read := 0
	return ReadMaps(file, func(m *Mapping) bool {
		read += MapsLine + len(m.Path)
		return read <= MaxMaps && f(m)
	})
}

// interner lets consecutive mappings of one file share the path string.
type interner struct{ last string }

var errMapsLine = errors.New("malformed line")

func (in *interner) parse(m *Mapping, b []byte) error {
	var ok [6]bool
	m.Start, b, ok[0] = hex(b, '-')
	m.End, b, ok[1] = hex(b, ' ')
	if len(b) < 5 || b[4] != ' ' {
		return errMapsLine
	}
	m.Perm, b = perm(b[:4]), b[5:]
	m.Offset, b, ok[2] = hex(b, ' ')
	var major, minor uint64
	major, b, ok[3] = hex(b, ':')
	minor, b, ok[4] = hex(b, ' ')
	m.Dev = major<<32 | minor&0xffffffff
	m.Inode, b, ok[5] = decimal(b)
	if ok != [6]bool{true, true, true, true, true, true} || m.End < m.Start {
		return errMapsLine
	}
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	const deleted = " (deleted)"
	if len(b) > len(deleted) && string(b[len(b)-len(deleted):]) == deleted {
		m.Deleted = true
		b = b[:len(b)-len(deleted)]
	}
	if string(b) != in.last {
		in.last = string(b)
	}
	m.Path = in.last
	return nil
}

func perm(b []byte) (p Perm) {
	for i, c := range b {
		switch {
		case i == 0 && c == 'r':
			p |= Read
		case i == 1 && c == 'w':
			p |= Write
		case i == 2 && c == 'x':
			p |= Exec
		case i == 3 && c == 's':
			p |= Shared
		}
	}
	return p
}

// hex reads a hexadecimal number up to the byte end.
func hex(b []byte, end byte) (v uint64, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == end:
			return v, b[i+1:], i > 0 && i <= 16
		case c >= '0' && c <= '9':
			v = v<<4 | uint64(c-'0')
		case c >= 'a' && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, nil, false
		}
	}
	return 0, nil, false
}

// decimal reads a number up to a space or the end.
func decimal(b []byte) (v uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(b) && b[i] != ' '; i++ {
		if b[i] < '0' || b[i] > '9' || i >= 20 {
			return 0, nil, false
		}
		v = v*10 + uint64(b[i]-'0')
	}
	return v, b[i:], i > 0
}

// String returns the line in the kernel's format, without alignment of the path.
func (m *Mapping) String() string {
	var b strings.Builder
	p := []byte("----")
	for i, c := range "rwx" {
		if m.Perm&(1<<i) != 0 {
			p[i] = byte(c)
		}
	}
	p[3] = 'p'
	if m.Perm&Shared != 0 {
		p[3] = 's'
	}
	fmt.Fprintf(&b, "%08x-%08x %s %08x %02x:%02x %d", m.Start, m.End, p, m.Offset,
		m.Dev>>32, m.Dev&0xffffffff, m.Inode)
	if m.Path != "" {
		b.WriteByte(' ')
		b.WriteString(m.Path)
		if m.Deleted {
			b.WriteString(" (deleted)")
		}
	}
	return b.String()
}
