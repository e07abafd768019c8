package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ianlancetaylor/demangle"

	"github.com/borescope/borescope/internal/rustv0"
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
// its parameters, "std::swap<A>(std::__is_tuple_like&, …)", and stays mangled; those
// that are followed by none but substitutions from before the member are right. In Rust's, a closure in
// a closure was another, and a static in a closure stayed mangled.
func TestDemangleMisread(t *testing.T) {
	d := NewDemangler(nil)
	for _, c := range []struct{ in, want string }{
		{"_ZSt4swapIN1n1AEENSt9enable_ifIXsr6__and_ISt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS4_ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SD_", ""},
		{"_ZN1n3addIiEENSt9enable_ifIXsr3std9is_signedIT_EE5valueES2_E4typeES2_S2_", ""},
		{"_ZN1n3addIiEENS_1bIT_XsrNS_1tIS1_EE1vEE1cES3_", ""},
		{"_ZN1n3addIiEENS_1bIT_XsrNS_1tIS1_EE1vEE1cES1_", "n::b<int, n::t<n::b>::v>::c n::add<int>(n::b)"},
		{"_ZN4llvmlsINS_30DiagnosticInfoOptimizationBaseEEERT_S3_NSt9enable_ifIXsr3std10is_base_ofIS1_S2_EE5valueENS1_8ArgumentEE4typeE", "llvm::DiagnosticInfoOptimizationBase& llvm::operator<< <llvm::DiagnosticInfoOptimizationBase>(llvm::DiagnosticInfoOptimizationBase&, std::enable_if<std::is_base_of<llvm::DiagnosticInfoOptimizationBase, llvm::DiagnosticInfoOptimizationBase>::value, llvm::DiagnosticInfoOptimizationBase::Argument>::type)"},
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

// TestDemangleLegacyRust: parts that begin with an underscore of their own lost it, in
// a tenth of the names of Rust's own tools (1,084 of 10,302 differed from
// rustc-demangle 0.1.27), and letters beyond ASCII stayed escaped. The first six are
// rustc 1.95's with -C symbol-mangling-version=legacy, of
//
//	mod _inner { pub mod __deep { pub fn _run() {} } }
//	impl _Tr for _T<[u8; 3]> { fn __go(&self) {} }
//	fn été() {}
//	fn _αβ() {}
//
// a closure, and the standard library; what all are comes from rustc-demangle.
func TestDemangleLegacyRust(t *testing.T) {
	d := NewDemangler(nil)
	for _, c := range []struct{ in, want string }{
		{"_ZN1a6_inner6__deep4_run17hfbaee71cba06e2bdE", "a::_inner::__deep::_run"},
		{"_ZN63_$LT$a.._T$LT$$u5b$u8$u3b$$u20$3$u5d$$GT$$u20$as$u20$a.._Tr$GT$4__go17h5f370744cb6cf141E", "<a::_T<[u8; 3]> as a::_Tr>::__go"},
		{"_ZN1a12_$ue9$t$ue9$17hb32283fcafc5dbd3E", "a::été"},
		{"_ZN1a13_$u3b1$$u3b2$17h0426e9aa9a311c08E", "a::αβ"},
		{"_ZN1a4main28_$u7b$$u7b$closure$u7d$$u7d$17hda739b03555684b9E", "a::main::{{closure}}"},
		{"_ZN3std3sys9backtrace28__rust_begin_short_backtrace17h49032eccec2d27a3E.llvm.123", "std::sys::backtrace::__rust_begin_short_backtrace"},
		{"_ZN1a1_5__$LT17h0426e9aa9a311c08E", "a::_::__$LT"},
		{"_ZN1a6_$ud8$17h0426e9aa9a311c08E", "a::Ø"},
		{"_ZN1a8_$ud800$17h0426e9aa9a311c08E", "a::$ud800$"}, // no letter
		{"_ZN1a6_$u85$17h0426e9aa9a311c08E", "a::$u85$"},     // a control
		{"_ZN1a6_$uD8$17h0426e9aa9a311c08E", "a::$uD8$"},
		{"_ZN1a4_bar17h0000000000000000E", "a::_bar::h0000000000000000"}, // C++: no hash
		{"_ZN1a4_bar17h0426e9aa9a311c08Ei", "a::_bar::h0426e9aa9a311c08(int)"},
	} {
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
	members := "_Z1fILi0EEv" + strings.Repeat("N1aIXsr1bIS_EE1vEE", 900)
	for _, s := range []string{bomb, nested, members, "_Z" + strings.Repeat("9", 40000)} {
		if got := d.Demangle(s); len(got) > 1<<20 {
			t.Errorf("%.20s: %d bytes", s, len(got))
		}
	}
	for i := range 10000 {
		d.Demangle(fmt.Sprintf("_ZN2ns1f%dEi", i))
		if n := d.memo.Bytes(); n > 64<<10 {
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
	want := filt(t, "c++filt", in.Bytes())
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

// filt returns a tool's answers, a line each.
func filt(t *testing.T, tool string, names []byte) []string {
	cmd := testenv.Command(t, tool)
	cmd.Stdin = bytes.NewReader(names)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// abbrev writes the standard abbreviations, which c++filt writes in full.
var abbrev = strings.NewReplacer(
	"std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string",
	"std::basic_istream<char, std::char_traits<char> >", "std::istream",
	"std::basic_ostream<char, std::char_traits<char> >", "std::ostream",
	"std::basic_iostream<char, std::char_traits<char> >", "std::iostream",
)

// TestDemangleNeedless counts, over the symbol tables at hand, the names that stay
// mangled though the demangler has them right, and those with a member of a template
// instance that it gives falsely; where c++filt and llvm-cxxfilt differ, either is
// right. Of 177,135 names of LLVM, Clang, node, x265, ICU and others, 286 stayed
// mangled, 18 of them needlessly.
func TestDemangleNeedless(t *testing.T) {
	testenv.Need(t, testenv.Tool("c++filt"), testenv.Tool("llvm-cxxfilt"))
	var in bytes.Buffer
	var names []string
	total := 0
	seen := map[string]bool{}
	for _, pattern := range []string{
		"/usr/lib/*-linux-gnu/libstdc++.so.6", "/usr/lib/*-linux-gnu/libLLVM-*.so.1", "/usr/lib/*-linux-gnu/libLLVM.so.*",
		"/usr/lib/llvm-*/lib/libclang-cpp.so.*", "/usr/lib/*-linux-gnu/libx265.so.*", "/usr/bin/node",
	} {
		paths, _ := filepath.Glob(pattern)
		for _, path := range paths {
			f, err := elf.Open(path)
			if err != nil {
				continue
			}
			dyn, _ := f.DynamicSymbols()
			static, _ := f.Symbols()
			f.Close()
			for _, s := range append(dyn, static...) {
				if !mangled(s.Name) || seen[s.Name] {
					continue
				}
				seen[s.Name] = true
				total++
				if strings.Contains(s.Name, "sr") {
					names = append(names, s.Name)
					fmt.Fprintln(&in, s.Name)
				}
			}
		}
	}
	if len(names) == 0 {
		testenv.Need(t, testenv.File("libstdc++.so.6"))
	}
	d, kept, needless, wrong := NewDemangler(nil), 0, 0, 0
	gnu, llvm := filt(t, "c++filt", in.Bytes()), filt(t, "llvm-cxxfilt", in.Bytes())
	for i, name := range names {
		raw, err := demangle.ToString(rustv0.Plain(name), d.opts...)
		right := err == nil && (plain(raw) == plain(gnu[i]) || plain(raw) == plain(llvm[i]))
		switch {
		case misread(name) && right:
			needless++
			t.Errorf("stays mangled: %s", name)
		case misread(name):
			kept++
		case !right && gnu[i] != name: // c++filt knows it too
			wrong++
			t.Errorf("%s: got %q, c++filt says %q", name, raw, gnu[i])
		}
	}
	t.Logf("%d names, %d with \"sr\": %d stay mangled, %d more needlessly, %d are false", total, len(names), kept, needless, wrong)
}

// plain leaves out what two demanglers write differently.
func plain(s string) string {
	s = strings.ReplaceAll(abbrev.Replace(s), "(anonymous namespace)", "{anonymous}")
	return strings.ReplaceAll(s, " ", "")
}

func FuzzDemangle(f *testing.F) {
	f.Add("_ZN2ns1fEi")
	f.Add("_RNvC6_123foo3bar")
	f.Add("_ZN1a6_inner13_$u3b1$$u3b2$17h0426e9aa9a311c08E.llvm.1")
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
