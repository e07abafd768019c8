package types_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/probe/script"
	"github.com/borescope/borescope/probe/script/syntax"
	"github.com/borescope/borescope/probe/script/syntax/attach"
	"github.com/borescope/borescope/probe/script/types"
)

// check checks a script that may use unstable features.
func check(src string, o *types.Options) (*types.Script, error) {
	if o == nil {
		o = &types.Options{}
	}
	c, err := script.Check("stdin", src, &script.Options{
		System: o.System, Params: o.Params, Unsafe: o.Unsafe, Arch: o.Arch,
		Environ: func(name string) (string, bool) {
			return "enable", strings.HasPrefix(name, "BPFTRACE_UNSTABLE_")
		},
	})
	return c.Types, err
}

// TestMaps: what the keys and values of maps become.
func TestMaps(t *testing.T) {
	for _, test := range []struct{ name, src, key, value string }{
		{"literal", `begin { @ = 7 }`, "int64", "int8"},
		{"grows", `begin { @ = 7; @ = 300 }`, "int64", "int16"},
		{"grows-in-another-probe", `begin { @ = 7 } end { @ = 70000 }`, "int64", "int32"},
		{"sign", `begin { @ = (uint32)1; @ = (int32)1 }`, "int64", "int64"},
		{"literal-takes-sign", `begin { @ = 1; @ = (uint16)1 }`, "int64", "uint16"},
		{"text", `begin { @["a"] = "bc"; @["abcd"] = "" }`, "string[5]", "string[3]"},
		{"several-keys", `begin { @[pid, "a"] = 1; @[1, "abc"] = 2 }`, "(uint32,string[4])", "int8"},
		{"tuple", `begin { @ = (1, "x"); @ = (300, "xyz") }`, "int64", "(int16,string[4])"},
		{"record", `begin { @ = (a = 1, b = true) }`, "int64", "record { .a = int8, .b = bool }"},
		{"count", `begin { @[comm] = count() }`, "string[16]", "count_t"},
		{"sum", `begin { @ = sum(pid) }`, "int64", "usum_t"},
		{"hist", `begin { @[1] = hist(2) }`, "int8", "hist_t"},
		{"increased", `begin { @++ }`, "int64", "int64"},
		{"of-count", `begin { @ = count(); @b = (int64)@; @b = 1; @c = @b }`, "int64", "count_t"},
		{"stack", `kprobe:f { @[kstack(3)] = 1 }`, "kstack_bpftrace_3", "int8"},
		{"loop", `begin { for ($i : 0..300) { @[$i] = 1 } }`, "int16", "int8"},
		{"sizeof", `begin { @ = sizeof(uint64[40]) }`, "int64", "int16"},
		{
			"struct", `struct s { int a; char b[7]; } kprobe:f { @[((struct s *)arg0).b] = 1 }`,
			"string[8]", "int8",
		},
		{"enum", `enum e { A = 1 } begin { @ = A }`, "int64", "enum e"},
		{"comptime", `begin { $a = 1; if comptime (typeinfo($a).base_type == "int") { @ = 1 }
			else { @ = "x" } }`, "int64", "int8"},
		{"if", `begin { @ = pid == 1 ? 1 : 500 }`, "int64", "int16"},
		{"option", `begin { @ = getopt("n", 5) }`, "int64", "uint64"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := check(test.src, nil)
			if err != nil {
				t.Fatal(syntax.ErrorText(err))
			}
			key, value := p.Map("@")
			if key.String() != test.key || value.String() != test.value {
				t.Errorf("@ is %v of %v, want %v of %v", value, key, test.value, test.key)
			}
		})
	}
}

// TestErrors: what is refused, and why.
func TestErrors(t *testing.T) {
	for _, test := range []struct{ name, src, msg string }{
		{"variable", `begin { print($x) }`, "Undefined or undeclared variable: $x"},
		{"two-types", `begin { @ = 1; @ = "a" }`, "trying to assign value of type 'string[2]' when " +
			"map already has a type 'int8'"},
		{"two-keys", `begin { @[1] = 1; @["a"] = 1 }`, "Argument mismatch for @"},
		{"key-and-none", `begin { @[1] = 1; @ = 1 }`, "used as a map without an explicit key"},
		{"count-copied", `begin { @a = count(); @b = @a }`, "cannot be assigned from one map"},
		{"function", `begin { nosuch(1) }`, "Unknown function: 'nosuch'"},
		{"name", `begin { print(NOSUCH) }`, "Unknown identifier: 'NOSUCH'"},
		{"arguments", `begin { printf() }`, "printf() requires at least one argument (0 provided)"},
		{"format", `begin { printf("%d", "a") }`, "unsupported format specifier for type 'string[2]'"},
		{"format-count", `begin { printf("%d") }`, "not enough arguments for format string"},
		{"pointer", `begin { $x = (int8 *)0; $y = $x * 2 }`, "The * operator can not be used"},
		{
			"field", `struct s { int a; } begin { print(((struct s *)0).b) }`,
			"does not contain a field named 'b'",
		},
		{"probe", `begin { print(arg0) }`, "can only be used with 'kprobes'"},
		{"unsafe", `begin { system("ls") }`, "unsafe function being used in safe mode"},
		{"cast", `begin { print((int8)"a") }`, `Cannot cast from "string[2]" to "int8"`},
		{"tuple", `begin { $x = (1, 2); print($x.2) }`, "Invalid tuple index: 2"},
		{"overflow", `begin { print(0xffffffffffffffff + 1) }`, "overflow"},
		{"break", `begin { break; }`, "'break' statement is not allowed in a probe"},
		{"return", `fn f(): int64 { $x = 1; }`, "Function f is of type int64, cannot return void"},
		{"locked", `begin { $x = 1; $y = sizeof($x); $x = 100000 }`, ""},
		{"type", `begin { let $x : struct nosuch; }`, `Cannot resolve unknown type "struct nosuch"`},
		{"c", `struct s { int a } begin { }`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := check(test.src, nil)
			if test.msg == "" {
				return // either way, it ends
			}
			if err == nil {
				t.Fatalf("accepted, want %q", test.msg)
			}
			if !strings.Contains(syntax.ErrorText(err), test.msg) {
				t.Errorf("error is\n%swant %q", syntax.ErrorText(err), test.msg)
			}
		})
	}
}

// TestUnchanged: the script that is checked stays as it was.
func TestUnchanged(t *testing.T) {
	f, err := syntax.Parse("stdin", []byte(`begin { @ = 1 + 2; @b = count(); @b++ }`), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	before := syntax.Clone(f)
	_, _ = types.Check(f, nil)
	if !syntax.Equal(before, f) {
		t.Errorf("the script is now\n%s", syntax.Dump(f))
	}
}

// TestWarnings: what is odd, but accepted.
func TestWarnings(t *testing.T) {
	p, err := check(`begin { let $x; 1; return; print(2) }`, nil)
	if err != nil {
		t.Fatal(syntax.ErrorText(err))
	}
	text := p.Warnings.String()
	for _, want := range []string{
		"Variable $x was never assigned to.", "Return value discarded.", "Unreachable",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// growing has tuples of which each is twice as wide as the one before it.
func growing(n int) string {
	var b strings.Builder
	b.WriteString("begin { $v0 = (1, 1); ")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "$v%d = ($v%d, $v%d); ", i, i-1, i-1)
	}
	return b.String() + "@ = $v1; print($v2 == $v2); }"
}

// nested has structs of which each has the one before it twice.
func nested(n int) string {
	var b strings.Builder
	b.WriteString("struct s0 { char c; };\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "struct s%d { struct s%d a, b; };\n", i, i-1)
	}
	return b.String()
}

// FuzzCheck: an answer is the same each time, and a script that is accepted is accepted once
// it is formatted, with the same types of its maps.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		`begin { @ = 1; @ = "a" }`, `kprobe:f { @[pid, comm] = count(); print(@) }`,
		`begin { $x = (1, "a"); $x = (2000, "bcd"); print($x == (1, "b")) }`,
		`struct s { int a; } kprobe:f /arg0 == 1/ { $x = (struct s *)arg1; print($x.a) }`,
		`begin { if comptime (typeinfo(1).base_type == "int") { @ = sizeof(@b) } @b = 1 }`,
		`fn f($x : int64): int64 { return $x + 1; } begin { for ($kv : @m) { print($kv.1) } @m[1] = 2 }`,
		`begin { @a = lhist(1, 0, 10, 1); let $x : uint8 = 3; $x++; print((a = 1, b = $x)) }`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		start := time.Now()
		slow := time.AfterFunc(10*time.Second, func() { panic("takes more than 10 s: " + src) })
		p, err := check(src, nil)
		slow.Stop()
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		q, err2 := check(src, nil)
		if (err == nil) != (err2 == nil) || err != nil && syntax.ErrorText(err) != syntax.ErrorText(err2) {
			t.Fatalf("first\n%v\nthen\n%v", err, err2)
		}
		if err != nil {
			return
		}
		sameMaps(t, p, q)
		tree, err := syntax.Parse("stdin", []byte(src), nil)
		if err != nil {
			t.Fatal(err)
		}
		formatted := syntax.Format(tree)
		r, err := check(string(formatted), nil)
		if err != nil {
			t.Fatalf("formatted is\n%s\nwhich is refused:\n%s", formatted, syntax.ErrorText(err))
		}
		sameMaps(t, p, r)
	})
}

func sameMaps(t *testing.T, p, q *types.Script) {
	t.Helper()
	for _, name := range p.Maps() {
		k, v := p.Map(name)
		k2, v2 := q.Map(name)
		if !k.Equal(k2) || !v.Equal(v2) {
			t.Errorf("%s is %v of %v, then %v of %v", name, v, k, v2, k2)
		}
	}
}

// BenchmarkCheck types a script of a tool's size.
func BenchmarkCheck(b *testing.B) {
	const src = `
struct req { int op; long start; char name[16]; };
kprobe:submit { @start[tid] = nsecs; @op[tid] = ((struct req *)arg0).op; }
kprobe:done /@start[tid]/ {
	$r = (struct req *)arg0;
	$us = (nsecs - @start[tid]) / 1000;
	@us[$r.op == 1 ? "read" : "write", comm] = hist($us);
	@total[$r.name] = sum($us);
	if ($us > 10000) { printf("%-16s %6d %8d us\n", comm, pid, $us); }
	delete(@start, tid);
}
interval:s:1 { print(@us); clear(@us); }
end { clear(@start); }`
	f, err := syntax.Parse("bench", []byte(src), nil)
	if err == nil {
		err = attach.Parse(f, nil)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := types.Check(f, nil); err != nil {
			b.Fatal(syntax.ErrorText(err))
		}
	}
}
