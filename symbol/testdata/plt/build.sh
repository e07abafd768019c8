#!/bin/sh
# Builds a small library, and a program for 386, for each architecture, and what
# objdump says of its linkage table: NAME.txt has lines of "address name". Needs
# Debian's cross compilers and binutils-multiarch.
cd "$(dirname "$0")" || exit 1
flags="-O1 -nostdlib -Wl,-z,max-page-size=4096 -Wl,-z,noseparate-code -Wl,-z,lazy -Wl,--build-id=none
	-fno-asynchronous-unwind-tables"
build() {
	name=$1
	shift
	# shellcheck disable=SC2086
	"$@" -s $flags -o "$name.elf" plt.c || exit 1
	objdump -d "$name.elf" | sed -n 's/^\([0-9a-f]*\) <\([a-z_]*@plt\)>:$/\1 \2/p' >"$name.txt"
}
build amd64 gcc -fPIC -shared
build amd64-ibt gcc -fPIC -shared -fcf-protection -Wl,-z,ibtplt
build 386 gcc -m32 -fPIC -shared
build arm64 aarch64-linux-gnu-gcc -fPIC -shared
build arm arm-linux-gnueabihf-gcc -fPIC -shared
build arm-thumb arm-linux-gnueabihf-gcc -fPIC -shared -march=armv6 -mfloat-abi=soft -mthumb
build riscv64 riscv64-linux-gnu-gcc -fPIC -shared
build ppc64le powerpc64le-linux-gnu-gcc -fPIC -shared
build s390x s390x-linux-gnu-gcc -fPIC -shared
# mold numbers the relocations in its entries. objdump does not name these, but mold does, where it is not told to strip.
mold() {
	name=$1
	shift
	# shellcheck disable=SC2086
	"$@" -fuse-ld=mold $flags -o "$name.elf" plt.c && nm -n "$name.elf" |
		sed -n 's/^0*\([0-9a-f]*\) t \([a-z_]*\)$plt\(got\)*$/\1 \2@plt/p' >"$name.txt" && strip "$name.elf" || exit 1
}
mold amd64-mold gcc -fPIC -shared
mold 386-mold gcc -m32 -fPIC -shared
stub=$(mktemp -d)
echo 'int alpha(int x) { return x; } int beta(int x) { return x; } int gamma_rays(int x) { return x; }' >"$stub/stub.c"
gcc -m32 -shared -nostdlib -o "$stub/libstub.so" "$stub/stub.c"
build 386-exec gcc -m32 -fcf-protection -Wl,-z,ibtplt -no-pie -fno-pic -Wl,-e,calls -Wl,--no-as-needed -L"$stub" -lstub
mold 386-exec-mold gcc -m32 -no-pie -fno-pic -Wl,-e,calls -Wl,--no-as-needed -L"$stub" -lstub
rm -r "$stub"
