// Package static defines USDT probes in the source of a Go program that are
// in its binary like those of a C program: tracers list them with no process
// running, and attach to all processes of the binary at once.
//
//	var request = static.New("myapp", "request", arg.Int64, arg.String)
//
//	func serve(id int, path string) {
//		if request.Enabled() {
//			request.Fire(id, path)
//		}
//	}
//
// and, after the build,
//
//	go build -o myapp . && go run github.com/borescope/borescope/usdt/cmd/usdtlink myapp
//	bpftrace -l 'usdt:./myapp:*'
//
// usdtlink writes the notes: the Go linker can't. It needs no toolchain beyond
// Go's, works on programs with fixed and with variable address (-buildmode=pie),
// stripped or not, and leaves go version -m and the build ID as they are. In a
// program that was not treated so, probes are there but never Enabled, and
// cost the same.
//
// A probe must be a package-level variable that New initialises as above, with
// constants: the compiler then computes it at build time, which is what usdtlink
// finds. Builds without inlining (-gcflags=-l) don't do so.
//
// Enabled costs less than a nanosecond and Fire, when nobody listens, a few;
// neither allocates nor locks. Probes are safe for concurrent use. Firing needs
// no privileges. There are MaxProbes probes in a program. Linux on amd64 and
// arm64 is supported; elsewhere probes are never Enabled.
package static
