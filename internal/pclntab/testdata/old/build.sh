#!/bin/sh
# Makes the programs of this folder, with the toolchains that are named here, and
# what they print of themselves. Their code is zeros then: the tables are what the
# test reads. Needs binutils, xz and linux/amd64, which runs 386 as well.
set -e
cd "$(dirname "$0")"
tmp=$(mktemp -d)
trap 'rm -r "$tmp"' EXIT
cp main.go "$tmp"
printf 'module old\n\ngo 1.16\n' >"$tmp/go.mod"

one() { # version architecture build-mode
	out=$PWD/go$1-$2-$3
	(cd "$tmp" && GOTOOLCHAIN=go$1 GOARCH=$2 CGO_ENABLED=0 GOFLAGS=-mod=mod \
		go build -trimpath -ldflags='-s -w' -buildmode="$3" -o old .)
	"$tmp/old" 2>"$out.txt"
	readelf -SW "$tmp/old" | sed -n 's/^ *\[ *[0-9]*\] \.text *PROGBITS *[0-9a-f]* \([0-9a-f]*\) \([0-9a-f]*\).*/\1 \2/p' |
		while read -r off size; do
			head -c $((0x$size)) /dev/zero | dd of="$tmp/old" bs=4096 seek=$((0x$off)) oflag=seek_bytes conv=notrunc status=none
		done
	xz -9e <"$tmp/old" >"$out.xz"
}

one 1.16.15 amd64 exe
one 1.16.15 386 exe
one 1.18.10 amd64 pie
one 1.20.14 amd64 exe
