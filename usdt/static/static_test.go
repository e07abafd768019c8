package static_test

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/internal/usdtfire"
	"github.com/borescope/borescope/usdt/arg"
	"github.com/borescope/borescope/usdt/static"
)

var request = static.New("myapp", "request", arg.Int64, arg.String)

func Example() {
	// In a binary that usdtlink has not seen, or that nobody traces:
	if request.Enabled() {
		_ = request.Fire(7, "/index.html")
	}
	fmt.Println(request.Enabled(), request.Fire(7, "/index.html"))
	// Output: false <nil>
}

// TestLayout pins what usdtlink reads out of a file.
func TestLayout(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		testenv.Need(t, testenv.Missing("64-bit machine", "this is "+runtime.GOARCH))
	}
	p := (*[8]uint64)(unsafe.Pointer(&request))
	name := (*string)(unsafe.Add(unsafe.Pointer(&request), usdtfire.ProbeName))
	types := (*[]arg.Type)(unsafe.Add(unsafe.Pointer(&request), usdtfire.ProbeTypes))
	if unsafe.Sizeof(request) != usdtfire.ProbeSize || p[0] != usdtfire.ProbeMark0 || p[1] != usdtfire.ProbeMark1 || *name != "myapp:request" || len(*types) != 2 {
		t.Errorf("%x %q %v", p, *name, *types)
	}
	if *(*uint32)(unsafe.Add(unsafe.Pointer(&request), usdtfire.ProbeSemaphore)) != 0 || request.Enabled() {
		t.Error("semaphore is not 0")
	}
	*(*uint32)(unsafe.Add(unsafe.Pointer(&request), usdtfire.ProbeSemaphore)) = 1
	if !request.Enabled() {
		t.Error("semaphore is elsewhere")
	}
	*(*uint32)(unsafe.Add(unsafe.Pointer(&request), usdtfire.ProbeSemaphore)) = 0
}

// TestStubs fires every stub of this program, as if usdtlink had been here.
func TestStubs(t *testing.T) {
	if usdtfire.Stub(1) == 0 {
		testenv.Need(t, testenv.Missing("stubs", "none on "+runtime.GOARCH))
	}
	if usdtfire.Stub(0) != 0 || usdtfire.Stub(usdtfire.PoolSize+1) != 0 {
		t.Error("stubs out of range")
	}
	index := (*uint32)(unsafe.Add(unsafe.Pointer(&request), usdtfire.ProbeIndex))
	for i := range uint32(usdtfire.PoolSize) {
		*index = i + 1
		if err := request.Fire(i, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { _ = request.Fire(1000, "x") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if err := request.Fire(1); err == nil {
		t.Error("wrong number of arguments is accepted")
	}
	*index = 0
}

func BenchmarkDisabled(b *testing.B) {
	for i := 0; i < b.N; i++ {
		if request.Enabled() {
			_ = request.Fire(i, "x")
		}
	}
}
