#!/bin/sh
# Builds the test targets from target.c. Needs clang and lld (apt: clang lld).
set -e
cd "$(dirname "$0")"
for arch in amd64:x86_64 arm64:aarch64; do
	clang --target=${arch#*:}-linux-gnu -O1 -g -gdwarf-4 -fno-pic -Wno-asm-operand-widths -nostdlib -static -ffreestanding \
		-fno-stack-protector -fno-asynchronous-unwind-tables -ffile-prefix-map="$PWD"=. \
		-fuse-ld=lld -Wl,--build-id=none -o target-${arch%:*} target.c
	chmod 755 target-${arch%:*}
done
