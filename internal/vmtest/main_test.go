package main

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"profile -d 3s -f":        {"profile", "-d", "3s", "-f"},
		"  a   b ":                {"a", "b"},
		`x 'two words' "it's" ''`: {"x", "two words", "it's", ""},
		"'unfinished":             nil,
		"":                        nil,
	} {
		got, err := split(line)
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("split(%q) = %q, %v", line, got, err)
		}
	}
}

func TestParse(t *testing.T) {
	c, err := parse([]string{"-kernel", "5.10,6.1", "-run", "X", "-exec", "a b,c", "-env", "A=1,2", "-env", "B=", "./probe", "./mapx"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.kernels, list{"5.10", "6.1"}) || !slices.Equal(c.execs, verbatim{"a b,c"}) || !slices.Equal(c.env, verbatim{"A=1,2", "B="}) ||
		!slices.Equal(c.patterns, []string{"./probe", "./mapx"}) || c.run != "X" {
		t.Errorf("%+v", c)
	}
	if _, err := parse(nil); err == nil {
		t.Error("nothing to run is accepted")
	}
}
