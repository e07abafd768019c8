// Package static defines USDT probes in the source of a Go program that are in its binary like
// those of a C program: tracers list them without a running process, and attach to all
// processes of the binary at once.
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
// usdtlink writes the notes, which the Go linker can't write. It needs no toolchain except Go's,
// works on programs with fixed and with variable address (-buildmode=pie), stripped or not, and
// keeps the output of go version -m and the build ID. In a program without these notes probes
// exist but are never Enabled, and cost the same.
//
// A probe must be a package-level variable that New initializes as above, with constants: the
// compiler then computes it at build time, and usdtlink finds the result. Builds without
// inlining (-gcflags=-l) don't do so.
//
// Enabled costs less than a nanosecond, and Fire a few if no tracer is attached; neither
// allocates nor locks. Probes are safe for concurrent use. Firing needs no privileges. A program
// can have 255 probes. Linux on amd64 and arm64 is supported; elsewhere probes are never
// Enabled.
package static
