package collect_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/elfbuild"
	"github.com/borescope/borescope/stack/collect"
	"github.com/borescope/borescope/stack/internal/stacktest"
	"github.com/borescope/borescope/stack/profile"
	"github.com/borescope/borescope/symbol"
)

// lives are what was recorded of a number and an address that were other code at other times: what the
// programs told, what the kernel told of them, and samples. testdata/lives has them.
type lives struct {
	Told    []stacktest.Told
	Events  []symbol.Event
	Samples []collect.Sample
}

// TestLivesReplay is TestLives with what was recorded there, on any system.
func TestLivesReplay(t *testing.T) {
	for _, name := range []string{"executed", "loaded", "numbered", "widths"} {
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "lives", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var l lives
			if err := json.Unmarshal(b, &l); err != nil {
				t.Fatal(err)
			}
			ps := symbol.NewProcesses(&symbol.Options{Root: l.files()})
			defer ps.Close()
			for i := range l.Events {
				ps.Handle(&l.Events[i])
			}
			checkLives(t, l.Told, l.Samples, namesOf(t, ps, l.Samples), name != "loaded")
		})
	}
}

// files are files with the functions of the programs where those that were mapped had them.
func (l *lives) files() fstest.MapFS {
	files := fstest.MapFS{}
	for i := range l.Events {
		ev := &l.Events[i]
		name := strings.TrimSuffix(strings.TrimPrefix(path.Base(ev.Path), "lib"), ".so")
		start := l.Told[0].Start
		if name != "first" && name != "second" || start-ev.Addr >= ev.Len {
			continue
		}
		text := elfbuild.Section{
			Name: ".text", Type: elf.SHT_PROGBITS, Flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
			Addr: ev.Addr, Data: make([]byte, ev.Len),
		}
		f := elfbuild.File{
			Class: elf.ELFCLASS64, Order: binary.LittleEndian, Type: elf.ET_EXEC, Machine: elf.EM_X86_64,
			Sections: []elfbuild.Section{{Name: ".pad", Type: elf.SHT_PROGBITS}, text},
			Symbols:  []elfbuild.Symbol{{Name: name, Value: start, Size: 256, Type: elf.STT_FUNC, Bind: elf.STB_GLOBAL, Section: 2}},
		}
		if strings.HasPrefix(path.Base(ev.Path), "lib") {
			f.Type = elf.ET_DYN
			f.Sections[1].Addr, f.Symbols[0].Value = ev.Offset, start-ev.Addr+ev.Offset
		}
		f.Sections[0].Data = make([]byte, ev.Offset-offsetOfText(&f))
		files[ev.Path[1:]] = &fstest.MapFile{Data: f.Bytes()}
	}
	return files
}

// offsetOfText is where in the file the program's code lies.
func offsetOfText(f *elfbuild.File) uint64 {
	e, err := elf.NewFile(strings.NewReader(string(f.Bytes())))
	if err != nil {
		return 0
	}
	return e.Section(".text").Offset
}

// namesOf names samples, and checks that their names can be recorded.
func namesOf(t *testing.T, ps *symbol.Processes, samples []collect.Sample) *profile.Profile {
	t.Helper()
	var rec symbol.Recording
	ended := map[int]bool{}
	live := collect.NewNamer(nil, func(pid int) symbol.Resolver {
		p, err := ps.Process(pid)
		if err != nil {
			ended[pid] = true
			return nil
		}
		return rec.RecordProcess(pid, 0, p)
	}).Samples(samples)
	var b bytes.Buffer
	if _, err := rec.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	back, err := symbol.ReadRecorded(&b)
	if err != nil {
		t.Fatal(err)
	}
	replayed := collect.NewNamer(nil, func(pid int) symbol.Resolver {
		if ended[pid] {
			return nil
		}
		return back.Process(pid, 0)
	}).Samples(samples)
	for i := range live {
		if !reflect.DeepEqual(replayed[i], live[i]) {
			t.Errorf("sample %d of process %d: its names are recorded as %+v, not %+v", i, live[i].PID,
				replayed[i].Frames[0], live[i].Frames[0])
			break
		}
	}
	return &profile.Profile{Samples: live}
}

// checkLives compares the innermost functions of samples with what the programs told. The lives are
// apart if the kernel counts them apart.
func checkLives(t *testing.T, told []stacktest.Told, samples []collect.Sample, prof *profile.Profile, apart bool) {
	t.Helper()
	var all, wrong, uncertain, unnamed, keys uint64
	right := make(map[string]uint64)
	for i := range samples {
		s := &samples[i]
		at := told[0].Start
		if s.PID != told[0].PID || len(s.User.Frames) == 0 || s.User.Frames[0].PC-at > 256 {
			continue
		}
		all += s.Count
		keys++
		f := prof.Samples[i].Frames[0]
		switch {
		case f.Uncertain:
			uncertain += s.Count
			continue
		case len(f.Functions) == 0:
			unnamed += s.Count
			continue
		}
		ok := false
		for _, r := range told {
			if r.Start != at {
				t.Fatalf("%s is at %#x, not at %#x as the others", r.Function, r.Start, at)
			}
			if s.First > r.To || s.Last < r.From {
				continue
			}
			if ok = r.Function == f.Functions[0].Name; !ok {
				break
			}
		}
		if ok {
			right[f.Functions[0].Name] += s.Count
		} else {
			wrong += s.Count
			t.Logf("%d samples from %d to %d are in %s", s.Count, s.First, s.Last, f.Functions[0].Name)
		}
	}
	t.Logf("%d samples of %d stacks: %v right, %d wrong, %d uncertain, %d without a name", all, keys, right, wrong, uncertain, unnamed)
	if wrong != 0 || right["first"] == 0 || right["second"] == 0 {
		t.Errorf("of %d samples %v are right and %d wrong", all, right, wrong)
	}
	if uncertain != 0 && apart {
		t.Errorf("%d samples are uncertain, which the kernel tells apart", uncertain)
	}
	if n := uint64(prof.Uncertain()); n < uncertain {
		t.Errorf("the profile has %d uncertain samples, not %d", n, uncertain)
	}
}
