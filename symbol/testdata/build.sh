#!/bin/sh
# Builds prog: no C library, a few functions, DWARF 5. The golden files belong to
# the very bytes that are committed; after a rebuild run go test -update.
cd "$(dirname "$0")" || exit 1
gcc -g -gdwarf-5 -O1 -nostdlib -static -no-pie -fno-asynchronous-unwind-tables -ffile-prefix-map="$PWD"=/src \
	-Wl,--build-id=none -o prog prog.c
