package cpus

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParse(t *testing.T) {
	for in, want := range map[string][]int{
		"":            nil,
		"\n":          nil,
		"0":           {0},
		"0-3,5\n":     {0, 1, 2, 3, 5},
		"5,0-1":       {0, 1, 5},
		"0-2,1-3":     {0, 1, 2, 3},
		"0,2,4,6,128": {0, 2, 4, 6, 128},
	} {
		got, err := Parse(in)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("Parse(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestParseBad(t *testing.T) {
	for _, in := range []string{"x", "1-", "-1", "3-1", "1,,2", "0-99999999", "65536", "1-2-3", " 1 2"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", in, got)
		}
	}
}

func TestOnlinePossible(t *testing.T) {
	root := fstest.MapFS{
		"sys/devices/system/cpu/online":   {Data: []byte("0,2-3\n")},
		"sys/devices/system/cpu/possible": {Data: []byte("0-7\n")},
	}
	on, err := Online(root)
	if err != nil || !slices.Equal(on, []int{0, 2, 3}) {
		t.Errorf("Online = %v, %v", on, err)
	}
	pos, err := Possible(root)
	if err != nil || len(pos) != 8 {
		t.Errorf("Possible = %v, %v", pos, err)
	}
	if _, err := Online(fstest.MapFS{}); !os.IsNotExist(err) {
		t.Errorf("Online without a file: %v", err)
	}
	root["sys/devices/system/cpu/online"].Data = []byte("\n")
	if _, err := Online(root); err == nil {
		t.Error("an empty online list was accepted")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("0-3,5")
	f.Add("65535")
	f.Fuzz(func(t *testing.T, s string) {
		// Many overlapping ranges are many appends: bound what one input may ask for.
		if strings.Count(s, ",") > 8 {
			return
		}
		list, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(Format(list))
		if err != nil || !slices.Equal(again, list) {
			t.Fatalf("Parse(Format(%v)) = %v, %v", list, again, err)
		}
	})
}
