package hostfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/borescope/borescope/mapx/recording"
)

// maxLine bounds a line in bytes: a path and a link's target, each byte of which may be four
// when it is quoted.
const maxLine = 64 << 10

// treeReader reads what a treeRecorder wrote.
type treeReader struct {
	r    *bufio.Reader
	tree memFS
	room int64 // the memory left, in bytes
}

// next reads an entry into the tree. The error is io.EOF or io.ErrUnexpectedEOF at the end,
// and where a recording was cut off.
func (t *treeReader) next() error {
	line, err := t.line()
	if err != nil {
		return err
	}
	kind, rest, _ := strings.Cut(line, " ")
	name, rest, err := quoted(rest)
	if err != nil || !fs.ValidPath(name) {
		return fmt.Errorf("file name in %.100q: %w", line, recording.ErrCorrupt)
	}
	n := &memNode{name: path.Base(name)}
	switch kind {
	case "file":
		n.data, err = t.data(rest)
	case "link":
		n.link, _, err = quoted(rest)
	case "dir":
		n.dir = true
		n.entries, err = t.entries(rest)
	default:
		err = fmt.Errorf("%.100q: %w", line, recording.ErrCorrupt)
	}
	if err != nil {
		return err
	}
	t.tree[name] = n
	return nil
}

// take takes memory from what is left.
func (t *treeReader) take(n int64) error {
	if t.room -= n; t.room < 0 {
		return fmt.Errorf("the files are larger than what was recorded can be: %w", recording.ErrCorrupt)
	}
	return nil
}

// line reads a line, without its end.
func (t *treeReader) line() (string, error) {
	b, err := t.r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a line of more than %d bytes: %w", maxLine, recording.ErrCorrupt)
	case err != nil:
		return "", err
	}
	return string(b[:len(b)-1]), t.take(int64(len(b)) + nodeCost)
}

// number parses what remains of a line.
func number(rest string) (int64, error) {
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("size %.100q: %w", rest, recording.ErrCorrupt)
	}
	return n, nil
}

// data reads a file's contents.
func (t *treeReader) data(size string) ([]byte, error) {
	n, err := number(size)
	if err == nil {
		err = t.take(n)
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, n+1) // and the end of the line
	_, err = io.ReadFull(t.r, b)
	return b[:n:n], err
}

// entries reads a directory's listing.
func (t *treeReader) entries(count string) ([]fs.DirEntry, error) {
	n, err := number(count)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	for range n {
		line, err := t.line()
		if err != nil {
			return nil, err
		}
		kind, rest, _ := strings.Cut(line, " ")
		name, _, err := quoted(rest)
		if err != nil || len(kind) != 1 {
			return nil, fmt.Errorf("entry %.100q: %w", line, recording.ErrCorrupt)
		}
		e := &memNode{name: name, dir: kind == "d"}
		if kind == "l" {
			e.link = "?"
		}
		list = append(list, e)
	}
	return list, nil
}

// quoted splits a quoted text from the beginning of a line.
func quoted(s string) (text, rest string, err error) {
	q, err := strconv.QuotedPrefix(s)
	if err == nil {
		text, err = strconv.Unquote(q)
	}
	if err != nil {
		return "", "", fmt.Errorf("%.100q: %w", s, recording.ErrCorrupt)
	}
	return text, strings.TrimPrefix(s[len(q):], " "), nil
}
