package decompress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/borescope/borescope/internal/testenv"
)

// code is random data with many bytes that the filters take for instructions.
func code(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	some := []byte{0xe8, 0xe9, 0, 0xff, 0xeb, 0x94, 0x90, 0xb0, 0xf0, 0xf8, 0x48, 1}
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(r.Uint32()); r.IntN(2) == 0 {
			b[i] = some[r.IntN(len(some))]
		}
	}
	return b
}

func xzTool(t testing.TB, in []byte, args ...string) []byte {
	t.Helper()
	cmd := testenv.Command(t, "xz", append(args, "-c")...)
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &said
	out, err := cmd.Output()
	if err != nil {
		testenv.Need(t, testenv.Got(fmt.Sprintf("xz %v", args), fmt.Errorf("%w: %s", err, &said), "unrecognized option"))
	}
	return out
}

// TestBranchFilters: an xz stream with a filter for executables was refused, so that a
// .gnu_debugdata with one gave no names, silently. The oracle is the xz tool.
func TestBranchFilters(t *testing.T) {
	testenv.Need(t, testenv.Tool("xz"))
	for _, flags := range []string{
		"--x86", "--arm", "--armthumb", "--powerpc", "--arm64", "--x86=start=4096", "--arm64=start=1048576",
		"--x86 --arm", "--powerpc --x86 --armthumb", "--x86 --block-size=10000", "--x86 --check=none",
		"--x86 --check=crc32", "--arm64 --check=sha256",
	} {
		t.Run(strings.ReplaceAll(flags, " ", ","), func(t *testing.T) {
			for seed, n := range []int{0, 1, 3, 4, 5, 9, 4095, 4096, 4099, 300_000} {
				in := code(uint64(seed), n)
				b := xzTool(t, in, append(strings.Fields(flags), "--lzma2=dict=1MiB")...)
				out, err := All(XZ, b, int64(n))
				if err != nil || !bytes.Equal(out, in) {
					t.Fatalf("%d bytes: %d bytes, %v", n, len(out), err)
				}
				if n == 0 {
					continue
				}
				if _, err := All(XZ, b, int64(n)-1); !errors.Is(err, ErrTooLarge) {
					t.Errorf("limit %d: %v", n-1, err)
				}
				if strings.Contains(flags, "none") {
					continue
				}
				b = bytes.Clone(b)
				b[len(b)/2] ^= 0x40
				if out, err := All(XZ, b, 1<<20); err == nil && !bytes.Equal(out, in) {
					t.Errorf("%d bytes: changed, and not noticed", n)
				}
			}
		})
	}
	for _, flag := range []string{"--delta", "--sparc", "--ia64"} {
		if _, err := All(XZ, xzTool(t, code(1, 100), flag, "--lzma2"), 1<<20); !errors.Is(err, errors.ErrUnsupported) ||
			!strings.Contains(fmt.Sprint(err), flag[2:]) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// TestFilteredBounds: a stream with a filter states its dictionary as others do, and its
// blocks' headers are checked.
func TestFilteredBounds(t *testing.T) {
	testenv.Need(t, testenv.Tool("xz"))
	in := code(1, 5000)
	b := xzTool(t, in, "--x86", "--lzma2=dict=1MiB")
	// To have a dictionary of 1536 MiB itself, xz takes more memory than tests may.
	header := b[xzHeader : xzHeader+(int(b[xzHeader])+1)*4]
	lzma2 := bytes.Index(header, []byte{0x21, 1})
	if lzma2 < 0 {
		t.Fatalf("no LZMA2 in %x", header)
	}
	const dict1536MiB = 37 // (2 | 37&1) << (37/2 + 11)
	header[lzma2+2] = dict1536MiB
	sum := len(header) - 4
	binary.LittleEndian.PutUint32(header[sum:], crc32.ChecksumIEEE(header[:sum]))
	if out, err := All(XZ, b, 1<<20); err != nil || !bytes.Equal(out, in) {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	for i := range header {
		bad := bytes.Clone(b)
		bad[xzHeader+i] ^= 1
		if out, err := All(XZ, bad, 1<<20); err == nil {
			t.Errorf("byte %d of the header is wrong: %d bytes", i, len(out))
		}
	}
}

// FuzzBranchFilters undoes filters at once and in pieces: the result is the same, and as long.
func FuzzBranchFilters(f *testing.F) {
	for _, id := range []uint8{filterX86, filterPowerPC, filterARM, filterARMThumb, filterARM64} {
		f.Add(id, uint32(0), code(uint64(id), 5000))
		f.Add(id, uint32(1<<32-4096), code(uint64(id), 300))
	}
	f.Fuzz(func(t *testing.T, id uint8, pos uint32, b []byte) {
		undo, err := newBranchFilter(uint64(id))
		if err != nil {
			return
		}
		want := bytes.Clone(b)
		undo(want, pos)
		again, _ := newBranchFilter(uint64(id))
		got, err := io.ReadAll(&branchReader{r: iotest.OneByteReader(bytes.NewReader(b)), undo: again, pos: pos})
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("in pieces: %x, %v; at once: %x", got, err, want)
		}
	})
}

// FuzzFilteredBlock reads streams whose block header says what the fuzzer wants.
func FuzzFilteredBlock(f *testing.F) {
	stream := compressed(f, XZ, code(3, 2000))
	for _, id := range []byte{filterX86, filterARM64, filterDelta, filterLZMA2} {
		f.Add([]byte{1, id, 0, filterLZMA2, 1, 22})
		f.Add([]byte{1, id, 4, 0, 16, 0, 0, filterLZMA2, 1, 22})
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		n := (1 + len(head) + 3 + 4) &^ 3
		if n < 8 || n > 1024 {
			return
		}
		block := make([]byte, n)
		block[0] = byte(n/4 - 1)
		copy(block[1:], head)
		binary.LittleEndian.PutUint32(block[n-4:], crc32.ChecksumIEEE(block[:n-4]))
		old := (int(stream[xzHeader]) + 1) * 4
		b := append(append(bytes.Clone(stream[:xzHeader]), block...), stream[xzHeader+old:]...)
		const limit = 1 << 16
		if out, err := All(XZ, b, limit); err == nil && len(out) > limit {
			t.Fatalf("%d bytes", len(out))
		}
	})
}
