#!/bin/sh
# Builds an object file and a program for each architecture, and what addr2line
# says of every sixth byte of their functions: NAME.txt has lines of "address function
# file:line function file:line …", innermost first. Addresses in object files are
# offsets in .text. Needs Debian's cross compilers and binutils-multiarch.
cd "$(dirname "$0")" || exit 1
flags="-O2 -g -ffreestanding -fno-asynchronous-unwind-tables -ffile-prefix-map=$PWD=/src"
golden() {
	nm -S "$1" | sed -n 's/^\([0-9a-f]*\) \([0-9a-f]*\) T .*/\1 \2/p' | while read -r at size; do
		seq $((0x$at)) 6 $((0x$at + 0x$size - 1))
	done | xargs printf '%#x\n' | addr2line -a -f -i -e "$1" | sed 's/ (discriminator.*//; s|^/src/||' | tr '\n' ' ' |
		sed 's/ 0x/\n/g; s/^0x//; s/ $/\n/' >"$1.txt"
}
build() {
	name=$1
	shift
	# shellcheck disable=SC2086
	"$@" $flags -c -o "$name.o" inline.c || exit 1
	# shellcheck disable=SC2086
	"$@" $flags -nostdlib -static -no-pie -Wl,-e,entry -Wl,--build-id=none -Wl,-z,max-page-size=4096 \
		-Wl,-z,noseparate-code -o "$name.elf" inline.c || exit 1
	chmod 644 "$name.elf"
	golden "$name.o"
	golden "$name.elf"
}
build amd64 gcc
build 386 gcc -m32
build arm64 aarch64-linux-gnu-gcc
build arm arm-linux-gnueabihf-gcc -marm
build riscv64 riscv64-linux-gnu-gcc
build ppc64le powerpc64le-linux-gnu-gcc
build s390x s390x-linux-gnu-gcc
build s390-dwarf4 s390x-linux-gnu-gcc -m31 -gdwarf-4
