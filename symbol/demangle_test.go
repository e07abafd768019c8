package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
)

func TestDemangle(t *testing.T) {
	full, short := NewDemangler(nil), NewDemangler(&DemangleOptions{NoParams: true})
	bare := NewDemangler(&DemangleOptions{NoTemplateParams: true})
	for _, c := range []struct{ in, full, short, bare string }{
		{"_ZN2ns1fEi", "ns::f(int)", "ns::f", "ns::f"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)", "std::vector<int, std::allocator<int> >::push_back", "std::vector::push_back"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad", "core::fmt::Formatter::pad", "core::fmt::Formatter::pad"},
		{"_RNvC6_123foo3bar", "123foo::bar", "123foo::bar", "123foo::bar"},
		{"_ZN2ns1fEi.cold", "ns::f(int) [clone .cold]", "ns::f", "ns::f"},
		{"main.main", "main.main", "main.main", "main.main"},
		{"_Zbroken", "_Zbroken", "_Zbroken", "_Zbroken"},
		{"_D3std5stdio7writelnFZv", "_D3std5stdio7writelnFZv", "_D3std5stdio7writelnFZv", "_D3std5stdio7writelnFZv"},
		{"$s4main3fooyyF", "$s4main3fooyyF", "$s4main3fooyyF", "$s4main3fooyyF"}, // Swift
		{"", "", "", ""},
	} {
		if got := full.Demangle(c.in); got != c.full {
			t.Errorf("%s: got %q, want %q", c.in, got, c.full)
		}
		if got := short.Demangle(c.in); got != c.short {
			t.Errorf("%s: got %q, want %q", c.in, got, c.short)
		}
		if got := bare.Demangle(c.in); got != c.bare {
			t.Errorf("%s: got %q, want %q", c.in, got, c.bare)
		}
	}
	if got := (*Demangler)(nil).Demangle("_ZN2ns1fEi"); got != "_ZN2ns1fEi" {
		t.Errorf("nil: %q", got)
	}
}

// TestDemangleMisread gives names that the demangler misreads. One that refers to a
// member of a template instance, as all of GCC's std::swap do, had another type in
// its parameters, "std::swap<A>(std::__is_tuple_like&, …)", and stays mangled; the
// members that are not followed by a substitution are right. In Rust's, a closure in
// a closure was another, and a static in a closure stayed mangled.
func TestDemangleMisread(t *testing.T) {
	d := NewDemangler(nil)
	for _, c := range []struct{ in, want string }{
		{"_ZSt4swapIN1n1AEENSt9enable_ifIXsr6__and_ISt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS4_ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SD_", ""},
		{"_ZN1n3addIiEENSt9enable_ifIXsr3std9is_signedIT_EE5valueES2_E4typeES2_S2_", ""},
		{"_ZN1n3addIiEENS_1bIT_XsrNS_1tIS1_EE1vEE1cES1_", ""},
		{"_ZN1n3addIiEENSt9enable_ifIXsr3std9is_signedIT_EE5valueEvE4typeEi", "std::enable_if<std::is_signed<int>::value, void>::type n::add<int>(int)"},
		{"_ZN4disr3addERKNS_1aES2_", "disr::add(disr::a const&, disr::a const&)"},
		{"_RNvNCNvC3std4hook011FIRST_PANIC", "std::hook::{closure#0}::FIRST_PANIC"},
		{"_RNCNCNCNvC3std2rt00s_0B6_", "std::rt::{closure#0}::{closure#0}::{closure#1}"},
		{"_RINvC1a1bNcNtC1c4None0NtB9_1dE", "a::b::<c::None, c::None::d>"},
	} {
		if c.want == "" {
			c.want = c.in
		}
		if got := d.Demangle(c.in); got != c.want {
			t.Errorf("%s: got %q, want %q", c.in, got, c.want)
		}
	}
}

// TestDemangleBound gives names that would grow without end.
func TestDemangleBound(t *testing.T) {
	d := NewDemangler(&DemangleOptions{Limit: 64 << 10})
	bomb := "_Z1f" + strings.Repeat("NS_", 3000)
	nested := "_Z1fI" + strings.Repeat("1aI", 2000) + strings.Repeat("E", 2001) + "vv"
	for _, s := range []string{bomb, nested, "_Z" + strings.Repeat("9", 40000)} {
		if got := d.Demangle(s); len(got) > 1<<20 {
			t.Errorf("%.20s: %d bytes", s, len(got))
		}
	}
	for i := range 10000 {
		d.Demangle(fmt.Sprintf("_ZN2ns1f%dEi", i))
		if n := d.memo.bytes(); n > 64<<10 {
			t.Fatalf("%d bytes are remembered after %d names", n, i)
		}
	}
}

// TestDemangleFilt compares with c++filt for the names of a C++ library.
func TestDemangleFilt(t *testing.T) {
	m, _ := filepath.Glob("/usr/lib/*-linux-gnu/libstdc++.so.6")
	testenv.Need(t, testenv.Tool("c++filt"), testenv.File(append(m, "libstdc++.so.6")[0]))
	f, err := elf.Open(m[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syms, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	var names []string
	for _, s := range syms {
		if strings.HasPrefix(s.Name, "_Z") {
			names = append(names, s.Name)
			fmt.Fprintln(&in, s.Name)
		}
	}
	cmd := testenv.Command(t, "c++filt")
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	// c++filt writes the standard abbreviations in full.
	abbrev := strings.NewReplacer(
		"std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string",
		"std::basic_istream<char, std::char_traits<char> >", "std::istream",
		"std::basic_ostream<char, std::char_traits<char> >", "std::ostream",
		"std::basic_iostream<char, std::char_traits<char> >", "std::iostream",
	)
	d, wrong := NewDemangler(nil), 0
	for i, name := range names {
		if got := d.Demangle(name); abbrev.Replace(got) != abbrev.Replace(want[i]) {
			if wrong++; wrong < 5 {
				t.Logf("%s: got %q, c++filt says %q", name, got, want[i])
			}
		}
	}
	// The two differ in how they write some types.
	if len(names) < 1000 || wrong*100 > len(names) {
		t.Errorf("%d of %d names differ", wrong, len(names))
	}
}

func FuzzDemangle(f *testing.F) {
	f.Add("_ZN2ns1fEi")
	f.Add("_RNvC6_123foo3bar")
	f.Fuzz(func(t *testing.T, name string) {
		d := NewDemangler(nil)
		one := d.Demangle(name)
		if two := d.Demangle(name); one != two || name != "" && one == "" || len(one) > 1<<20 {
			t.Fatalf("%q gives %q and then %q", name, one, two)
		}
	})
}

// BenchmarkDemangleProfile is a profile of a million frames of 20,000 names.
func BenchmarkDemangleProfile(b *testing.B) {
	names := make([]string, 20000)
	for i := range names {
		names[i] = fmt.Sprintf("_ZN4node6Buffer8class%03d7processERKSt6vectorIiSaIiEEi%s", i%1000, strings.Repeat("i", i/1000))
	}
	for b.Loop() {
		d := NewDemangler(&DemangleOptions{Limit: 16 << 20})
		for i := range 1000000 {
			d.Demangle(names[i*7919%len(names)])
		}
	}
}
