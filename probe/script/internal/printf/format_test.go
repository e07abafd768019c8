package printf_test

import (
	"strings"
	"testing"

	"github.com/borescope/borescope/probe/script/internal/printf"
)

type number struct{}

func (number) String() string { return "RUN" }
func (number) Uint64() uint64 { return 2 }

// TestAppend: what bpftrace 0.26 prints, which is what C++'s streams do and not always C's printf.
func TestAppend(t *testing.T) {
	for _, c := range []struct {
		format string
		values []any
		want   string
	}{
		{"no %% at all", nil, "no % at all"},
		{"%d|%i|%u", []any{int64(-1), uint64(1 << 31), int64(-1)}, "-1|-2147483648|4294967295"},
		{"%ld|%lld|%lu|%zu", []any{int64(-1 << 40), uint64(1 << 63), int64(-1), uint64(7)}, "-1099511627776|-9223372036854775808|18446744073709551615|7"},
		{"%hhd|%hd|%hhu|%hu|%hhx", []any{int64(200), int64(40000), int64(-1), int64(-1), int64(-1)}, "-56|-25536|255|65535|ff"},
		{"%x|%X|%#x|%#X|%#o|%o|%#x", []any{int64(-1), uint64(255), uint64(255), uint64(255), uint64(8), uint64(8), uint64(0)}, "ffffffff|FF|0xff|0XFF|010|10|0"},
		{"%5d|%-5d|%05d|%+d|%+d|%05d|%-05d", []any{int64(42), int64(42), int64(42), int64(42), int64(-42), int64(-42), int64(42)}, "   42|42   |00042|+42|-42|00-42|42000"},
		{"%c%c", []any{uint64(65), uint64(0x142)}, "AB"},
		{"%p|%p", []any{uint64(0xffff0000deadbeef), uint64(0)}, "0xffff0000deadbeef|0"},
		{"%s|%10s|%-6s|%s|%s", []any{"text", "right", "left", int64(-5), true}, "text|     right|left  |-5|true"},
		{"%s|%d|%x", []any{number{}, number{}, number{}}, "RUN|2|2"},
		{"%d|%d", []any{true, "text"}, "1|!{invalid integer conversion: text}"},
		{"%gr|%gr|%gr", []any{int64(1), uint64(0), uint64(0xcc0)}, "GFP_DMA|0|GFP_KERNEL"},
		{"%gr|%12gr", []any{uint64(0x400dc8), int64(4)}, "GFP_KERNEL_ACCOUNT|__GFP_ZERO|0x8|   GFP_DMA32"},
		{"%gr", []any{"text"}, "!{invalid GFP flags conversion: text}"},
		{"%r|%rx|%rh|%r", []any{printf.Buffer("a\x00b"), printf.Buffer("a\x00"), printf.Buffer("a\x00b"), "text"}, `a\x00b|\x61\x00|61 00 62|text`},
		{"%d and %d", []any{int64(1)}, "1 and "},
		{"100%, %q", nil, "100%, %q"},
	} {
		format := c.format
		if got := string(printf.Parse(format).Append(nil, c.values)); got != c.want {
			t.Errorf("%q of %v is %q, want %q", c.format, c.values, got, c.want)
		}
	}
}

// FuzzAppend: text without conversions is as it is, and values are looked at as often as there are
// conversions.
func FuzzAppend(f *testing.F) {
	f.Add("%-5d %s %%", int64(7), "text")
	f.Add("%099999999d", int64(-7), "")
	f.Fuzz(func(t *testing.T, format string, n int64, text string) {
		parsed := printf.Parse(format)
		var values []any
		for i := range printf.Conversions(format) {
			values = append(values, []any{n, text, uint64(n), n > 0}[i%4])
		}
		if len(values) > 100 {
			return
		}
		got := string(parsed.Append(nil, values))
		if len(values) == 0 && got != strings.ReplaceAll(format, "%%", "%") && !strings.Contains(format, "%") {
			t.Errorf("%q is %q", format, got)
		}
	})
}
