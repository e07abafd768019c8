package tooltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/compress"
	"github.com/borescope/borescope/internal/escape"
	"github.com/borescope/borescope/mapx"
	"github.com/borescope/borescope/mapx/recording"
	"github.com/borescope/borescope/probe/tool"
)

// hostile replays the recording with its names of threads, files and functions replaced: they
// contain control sequences of terminals, and characters that could make them additional
// lines, columns and frames. The output must have as many lines as golden, the output for the
// recording itself, and must not contain those characters.
func hostile(t *testing.T, run Run, dir string, args []string, golden string) {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "hostile")
	if err := hostileCopy(t.Context(), copied, dir); err != nil {
		t.Errorf("%s with hostile names: %v", dir, err)
		return
	}
	var out bytes.Buffer
	args = append([]string{"-replay", copied}, args...)
	if err := run(t.Context(), args, tool.NewOutput(&out)); err != nil {
		t.Errorf("%s with hostile names: %s", dir, escape.Errors(err))
		return
	}
	if got, want := strings.Count(out.String(), "\n"), strings.Count(golden, "\n"); got != want {
		t.Errorf("%s with hostile names: %d lines, want %d:\n%q", dir, got, want, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if !escape.Safe(strings.TrimSuffix(line, "\n")) {
			t.Errorf("%s with hostile names: %q", dir, line)
		}
	}
}

// hostileCopy writes a copy of the recording in from with hostile names to the directory to.
func hostileCopy(ctx context.Context, to, from string) (err error) {
	rec, err := recording.Open(os.DirFS(from))
	if err != nil {
		return err
	}
	defer rec.Close()
	meta := rec.Meta()
	w, err := recording.Create(to, &meta)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	streams, err := rec.Streams()
	for _, name := range streams {
		var s *recording.Replay
		if s, err = rec.Stream(name, nil); err != nil {
			return err
		}
		copied := w.Stream(name, misnamed{s})
		for r := new(mapx.Record); err == nil; {
			err = copied.ReadInto(ctx, r)
		}
		if err != io.EOF {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(from, "*.*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		switch name := filepath.Base(file); {
		case name == "symbols.file":
			b, err = rechunk(b, func(b []byte) []byte {
				return symbolName.ReplaceAll(b, []byte(`$0\u001b]0;a;b 5\nx\u009b\u202e\u2028`))
			})
		case strings.HasSuffix(name, ".table"):
			b, err = rechunk(b, func(b []byte) []byte { misname(b); return b })
		case strings.HasSuffix(name, ".stream"):
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(file)), b, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// symbolName matches the beginning of the name of a function, module or file in a recording
// of symbols.
var symbolName = regexp.MustCompile(`"[nmf]":"`)

// misnamed is a source with hostile names in its records.
type misnamed struct{ mapx.Source }

func (m misnamed) ReadInto(ctx context.Context, rec *mapx.Record) error {
	err := m.Source.ReadInto(ctx, rec)
	if err == nil {
		misname(rec.Data)
	}
	return err
}

// word matches text: bytes of numbers are rarely four or more such characters in sequence.
var word = regexp.MustCompile(`[A-Za-z_./:-]{4,}`)

// misname makes the words of b hostile, except for their first and last letters.
func misname(b []byte) {
	const names = "\x1b\n;\u009b\r\u202e\xff"
	for _, at := range word.FindAllIndex(b, -1) {
		w := b[at[0]+1 : at[1]-1]
		for len(w) > 0 {
			w = w[copy(w, names):]
		}
	}
}

// rechunk applies change to the chunks of a recording's file; see mapx/recording/FORMAT.md
// for its format.
func rechunk(b []byte, change func([]byte) []byte) ([]byte, error) {
	dec, err := compress.NewDecoder(32 << 20)
	if err != nil {
		return nil, err
	}
	enc, err := compress.NewEncoder()
	if err != nil {
		return nil, err
	}
	lines := bytes.SplitAfterN(b, []byte("\n"), 3)
	out, rest := bytes.Join(lines[:2], nil), lines[2]
	for len(rest) > 0 {
		size := binary.LittleEndian.Uint32(rest[4:])
		raw, err := dec.Append(nil, rest[12:12+size])
		if err != nil {
			return nil, err
		}
		raw, rest = change(raw), rest[12+size:]
		packed := enc.Append(nil, raw)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(raw)))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(packed)))
		out = binary.LittleEndian.AppendUint32(out,
			crc32.Checksum(packed, crc32.MakeTable(crc32.Castagnoli)))
		out = append(out, packed...)
	}
	return out, nil
}
