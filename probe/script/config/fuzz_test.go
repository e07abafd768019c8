package config_test

import (
	"testing"
	"time"

	"github.com/borescope/borescope/probe/script/config"
	"github.com/borescope/borescope/probe/script/syntax"
)

// FuzzRead: formatting a script changes neither its configuration nor its errors.
func FuzzRead(f *testing.F) {
	for _, s := range []string{
		`config = { stack_mode = perf; max_strlen = 0x40; cpp_demangle = "no" } begin { }`,
		`config = { unstable_tseries = true; license = "GPL v2"; nosuch = 1 } begin { @ = tseries(1, 1s, 5); }`,
		`config = { BPFTRACE_CAT_BYTES_MAX = 5 } begin { while (1) { } print(sarg0); import "x"; }`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		slow := time.AfterFunc(5*time.Second, func() { panic("takes more than 5 s: " + script) })
		defer slow.Stop()
		tree, err := syntax.Parse("a", []byte(script), nil)
		if err != nil {
			return
		}
		c, w, err := config.Read(tree, nil)
		text := syntax.Format(tree)
		again, err2 := syntax.Parse("a", text, nil)
		if err2 != nil {
			t.Fatalf("formatted is\n%s\n%v", text, err2)
		}
		c2, w2, err2 := config.Read(again, nil)
		if (err == nil) != (err2 == nil) || len(w) != len(w2) {
			t.Fatalf("%v, %v, formatted %v, %v", err, w, err2, w2)
		}
		if err == nil && *c != *c2 {
			t.Errorf("configuration is %+v, formatted %+v", c, c2)
		}
	})
}
