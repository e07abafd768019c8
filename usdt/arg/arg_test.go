package arg_test

import (
	"testing"

	"github.com/borescope/borescope/usdt/arg"
)

func TestString(t *testing.T) {
	for typ, want := range map[arg.Type]string{
		arg.Int8: "Int8", arg.Uint64: "Uint64", arg.Pointer: "Pointer", arg.CString: "CString",
		arg.CString + 1: "Type(11)",
	} {
		if got := typ.String(); got != want {
			t.Errorf("%d: %s, want %s", uint8(typ), got, want)
		}
	}
}
