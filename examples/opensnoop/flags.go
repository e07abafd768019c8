package main

// openFlags are the flags of include/uapi/asm-generic/fcntl.h.
var openFlags = map[string]int{
	"O_WRONLY": 1, "O_RDWR": 2, "O_CREAT": 0o100, "O_EXCL": 0o200, "O_NOCTTY": 0o400,
	"O_TRUNC": 0o1000, "O_APPEND": 0o2000, "O_NONBLOCK": 0o4000, "O_NDELAY": 0o4000,
	"O_DSYNC": 0o10000, "O_DIRECT": 0o40000, "O_LARGEFILE": 0o100000, "O_DIRECTORY": 0o200000,
	"O_NOFOLLOW": 0o400000, "O_NOATIME": 0o1000000, "O_CLOEXEC": 0o2000000, "O_SYNC": 0o4010000,
	"O_PATH": 0o10000000, "O_TMPFILE": 0o20200000,
}

// openFlagsARM64 are the flags whose values differ in arch/arm64/include/uapi/asm/fcntl.h.
var openFlagsARM64 = map[string]int{
	"O_DIRECTORY": 0o40000, "O_NOFOLLOW": 0o100000, "O_DIRECT": 0o200000, "O_LARGEFILE": 0o400000,
	"O_TMPFILE": 0o20040000,
}

// openFlag returns a flag of open by its name.
func openFlag(arch, name string) (int, bool) {
	if n, ok := openFlagsARM64[name]; ok && arch == "arm64" {
		return n, true
	}
	n, ok := openFlags[name]
	return n, ok
}
