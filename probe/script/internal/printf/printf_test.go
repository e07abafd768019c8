package printf_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/script/internal/printf"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestConversions(t *testing.T) {
	for _, test := range []struct{ format, want string }{
		{"", ""},
		{"%d %s", "%d=d %s=s"},
		{"%-16s|%+06.2lld%%", "%-16s=s %+06.2lld=d"},
		{"%rx %rh %r %gr", "%rx=rx %rh=rh %r=r %gr=gr"},
		{"%*d %.*s", "%*d=d %.*s=s"},
		{"100% of %", "% o=o"},
		{"%q %", ""},
		{"%% %hhx", "%hhx=x"},
		{"%.d", ""},
	} {
		var got []string
		for _, c := range printf.Conversions(test.format) {
			got = append(got, test.format[c.Start:c.End]+"="+c.Spec)
		}
		if s := strings.Join(got, " "); s != test.want {
			t.Errorf("%q has %q, want %q", test.format, s, test.want)
		}
	}
}

// FuzzConversions: conversions are in order, begin with % and end with their specifier.
func FuzzConversions(f *testing.F) {
	f.Add("%-16s %6d%%")
	f.Add("%.*rx %gr %")
	f.Fuzz(func(t *testing.T, format string) {
		at := 0
		for _, c := range printf.Conversions(format) {
			text := format[c.Start:c.End]
			if c.Start < at || text[0] != '%' || !strings.HasSuffix(text, c.Spec) {
				t.Fatalf("%+v in %q", c, format)
			}
			at = c.End
		}
	})
}
