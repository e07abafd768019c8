package feature

import (
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are not in golang.org/x/sys/unix (include/uapi/linux/bpf.h, 6.9).
const (
	cmdTokenCreate = 36
	flagTokenFD    = 1 << 16 // BPF_F_TOKEN_FD
)

type tokenAttr struct{ _, bpffsFd uint32 } // flags first

// probeToken creates a token with a bad file descriptor: EBADF means that the kernel has the
// command.
func probeToken(f Feature) error {
	_, err := bpf(cmdTokenCreate, &tokenAttr{bpffsFd: ^uint32(0)})
	switch {
	case oneOf(err, unix.EBADF):
		return nil
	case oneOf(err, unix.EINVAL):
		return absent(f, "", err)
	}
	return err
}

// withToken runs the call without a token (0). If that is refused, it runs the call again with
// a BPF token of this process's user namespace, if a mounted BPF file system provides one.
// cilium/ebpf finds its token in the same way.
func withToken(call func(token uint32) (int, error)) (int, error) {
	fd, err := call(0)
	if !oneOf(err, unix.EPERM) || initialUserNamespace() {
		return fd, err
	}
	for _, dir := range bpfMounts() {
		token, terr := openToken(dir)
		if terr != nil {
			continue
		}
		fd, err = call(uint32(token))
		unix.Close(token)
		if err == nil {
			break
		}
	}
	return fd, err
}

func openToken(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return bpf(cmdTokenCreate, &tokenAttr{bpffsFd: uint32(fd)})
}

// bpfMounts returns the directories where BPF file systems are mounted.
func bpfMounts() []string {
	b, _ := os.ReadFile("/proc/self/mounts")
	var out []string
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "bpf" {
			out = append(out, f[1])
		}
	}
	return out
}

// These check that the tokens are at the kernel's offsets.
var (
	_ [144]byte = [unsafe.Offsetof(loadAttr{}.token)]byte{}
	_ [76]byte  = [unsafe.Offsetof(mapAttr{}.token)]byte{}
)
