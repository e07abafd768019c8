package elfnotes_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/borescope/borescope/elfnotes"
	"github.com/borescope/borescope/internal/testenv"
)

var full = flag.Bool("full", false, "compare every file of /usr/bin and /usr/lib with readelf, not a sample")

// TestReadelf compares the notes of this machine's files with what readelf -n
// prints: where, owner, size of the descriptor, and the values of build-ids,
// ABI tags and probes. Run it with -args -full for every file.
func TestReadelf(t *testing.T) {
	testenv.Need(t, testenv.Tool("readelf"))
	files := elfFiles(t, "/usr/bin", "/usr/lib")
	if !*full {
		var sample []string
		for i := 0; i < len(files); i += max(1, len(files)/150) {
			sample = append(sample, files[i])
		}
		files = sample
	}
	notes, differ := 0, 0
	for len(files) > 0 {
		batch := files[:min(200, len(files))]
		files = files[len(batch):]
		want := readelf(t, batch)
		for _, file := range batch {
			got := describe(t, file)
			notes += len(got)
			if g, w := strings.Join(got, "\n"), strings.Join(want[file], "\n"); g != w {
				if differ++; differ < 10 {
					t.Errorf("%s:\ngot:\n%s\nreadelf:\n%s", file, g, w)
				}
			}
		}
	}
	t.Logf("%d notes, %d files differ", notes, differ)
	if notes == 0 {
		t.Error("no notes at all")
	}
}

// elfFiles finds regular files that begin as ELF files do.
func elfFiles(t *testing.T, dirs ...string) []string {
	var files []string
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			f, err := os.Open(path)
			if err != nil {
				return nil
			}
			defer f.Close()
			magic := make([]byte, 4)
			f.Read(magic)
			if string(magic) == "\x7fELF" {
				files = append(files, path)
			}
			return nil
		})
	}
	if len(files) == 0 {
		testenv.Need(t, testenv.Missing("ELF files", "none on this machine"))
	}
	return files
}

// describe lists the notes of a file as readelf would: it reads segments only
// where there are no note sections.
func describe(t *testing.T, path string) []string {
	f, err := elfnotes.Open(path)
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	var sections, segments []string
	notes, errOf := f.Notes()
	for n := range notes {
		where := n.Where
		if where == "PT_NOTE" {
			where = fmt.Sprintf("%#x", n.Offset)
		}
		s := fmt.Sprintf("%s %d", attributes(n.Owner), len(n.Desc))
		if v, err := n.Decode(); err != nil {
			s += " " + err.Error()
		} else {
			s += value(v)
		}
		if n.Where == "PT_NOTE" {
			segments = append(segments, s)
		} else {
			sections = append(sections, where+" "+s)
		}
	}
	if err := errOf(); err != nil {
		sections = append(sections, err.Error())
	}
	if len(sections) > 0 {
		return sections
	}
	return segments
}

// attributes shortens the owner of annobin's build attributes, which is binary
// data that readelf prints in words: "GA$" and so on.
func attributes(owner string) string {
	if strings.HasPrefix(owner, "GA") {
		return "GA"
	}
	return owner
}

// value prints the values that readelf prints too.
func value(v elfnotes.Value) string {
	switch v := v.(type) {
	case elfnotes.ID:
		return " id " + v.String()
	case elfnotes.ABITag:
		return " abi " + v.String()
	case elfnotes.Stapsdt:
		args := v.Args
		return fmt.Sprintf(" %s %s %#x %#x %#x [%s]", v.Provider, v.Name, v.PC, v.Base, v.Semaphore, args)
	case elfnotes.Package:
		return " package " + v.JSON
	}
	return ""
}

var (
	readelfNote = regexp.MustCompile(`^  (\S.*?) +0x([0-9a-f]{8})\t(.*)$`)
	readelfABI  = regexp.MustCompile(`OS: (\w+), ABI: (.*)`)
	readelfLoc  = regexp.MustCompile(`Location: 0x([0-9a-f]+), Base: 0x([0-9a-f]+), Semaphore: 0x([0-9a-f]+)`)
)

// readelf runs readelf -n over some files and returns its notes by file.
func readelf(t *testing.T, files []string) map[string][]string {
	out, err := testenv.Command(t, "readelf", append([]string{"-nW"}, files...)...).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	notes := map[string][]string{}
	file, where := files[0], ""
	last := func() *string { return &notes[file][len(notes[file])-1] }
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<24)
	for sc.Scan() {
		s := sc.Text()
		if rest, ok := strings.CutPrefix(s, "File: "); ok {
			file = rest
		} else if rest, ok := strings.CutPrefix(s, "Displaying notes found in: "); ok {
			where = rest + " "
		} else if strings.HasPrefix(s, "Displaying notes found at file offset") {
			where = ""
		} else if m := readelfNote.FindStringSubmatch(s); m != nil {
			var size uint64
			fmt.Sscanf(m[2], "%x", &size)
			line := fmt.Sprintf("%s%s %d", where, attributes(m[1]), size)
			if _, rest, ok := strings.Cut(m[3], "Build ID: "); ok {
				line += " id " + rest
			} else if abi := readelfABI.FindStringSubmatch(m[3]); abi != nil {
				line += fmt.Sprintf(" abi %s %s", abi[1], abi[2])
			} else if _, rest, ok := strings.Cut(m[3], "Provider: "); ok {
				line += " " + rest
			} else if _, rest, ok := strings.Cut(m[3], "Packaging Metadata: "); ok {
				line += " package " + rest
			}
			notes[file] = append(notes[file], line)
		} else if rest, ok := strings.CutPrefix(s, "    Name: "); ok {
			*last() += " " + rest
		} else if m := readelfLoc.FindStringSubmatch(s); m != nil {
			for _, hex := range m[1:] {
				var v uint64
				fmt.Sscanf(hex, "%x", &v)
				*last() += fmt.Sprintf(" %#x", v)
			}
		} else if rest, ok := strings.CutPrefix(s, "    Arguments: "); ok {
			*last() += " [" + rest + "]"
		}
	}
	return notes
}
