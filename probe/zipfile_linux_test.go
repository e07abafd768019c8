package probe

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/internal/probetest"
)

// makeZip writes an archive with the target in it, stored and compressed.
func makeZip(t testing.TB, elf []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range []struct {
		name   string
		method uint16
		data   []byte
	}{
		{"classes.dex", zip.Deflate, bytes.Repeat([]byte("x"), 12345)},
		{"lib/arm64-v8a/libt.so", zip.Store, elf},
		{"lib/packed.so", zip.Deflate, elf},
		{"notes.txt", zip.Store, []byte("hello")},
	} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.name, Method: m.method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestZip: what is found in an archive is what is found in the file, moved to
// where it lies in the archive.
func TestZip(t *testing.T) {
	elf, err := os.ReadFile(probetest.TargetPath())
	if err != nil {
		t.Fatal(err)
	}
	archive := makeZip(t, elf)
	base := uint64(bytes.Index(archive, elf))
	root := probetest.Root(t)
	root["data/app/base.apk"] = &fstest.MapFile{Data: archive}
	root["bin/native"] = &fstest.MapFile{Data: elf}
	root["odd!/native"] = &fstest.MapFile{Data: elf}
	env := NewEnv(&EnvOptions{Root: root, Release: "6.12.0", Features: probetest.Features(), BTF: probetest.BTF(t)})
	const inZip = "/data/app/base.apk!/lib/arm64-v8a/libt.so"
	for _, what := range []string{
		"uprobe:%s:add", "uretprobe:%s:add", "uprobe:%s:helper_*", "uprobe:%s:target.c:106", "usdt:%s:target:*", "usdt:%s:guarded",
	} {
		plans := map[string]*Plan{}
		for _, path := range []string{"/bin/native", inZip, "/odd!/native"} {
			p, err := Resolve(env, []Target{mustParse(t, fmt.Sprintf(what, path))}, &Options{DWARF: true})
			if err != nil {
				t.Fatal(err)
			}
			plans[path] = p
		}
		want := plans["/bin/native"]
		for i := range want.Programs {
			a, b := want.Programs[i], plans[inZip].Programs[i]
			if len(a.Sites) != len(b.Sites) || fmt.Sprint(a.Args) != fmt.Sprint(b.Args) {
				t.Fatalf("%s:\n%s\nin the archive:\n%s", what, want, plans[inZip])
			}
			for j := range a.Sites {
				s, z := a.Sites[j], b.Sites[j]
				semaphore := s.RefCtrOffset
				if semaphore != 0 {
					semaphore += base
				}
				if z.Path != "/data/app/base.apk" || z.Offset != s.Offset+base || z.RefCtrOffset != semaphore || z.Address != s.Address {
					t.Errorf("%s: site %+v, in the file %+v", what, z, s)
				}
				if !bytes.Equal(archive[z.Offset:z.Offset+8], elf[s.Offset:s.Offset+8]) {
					t.Errorf("%s: other instructions at the site", what)
				}
				if plans["/odd!/native"].Programs[i].Sites[j].Offset != s.Offset {
					t.Errorf("%s: a directory whose name ends in ! is taken for an archive", what)
				}
			}
		}
		checkRecorded(t, plans[inZip])
	}
	for path, want := range map[string]string{
		"/data/app/base.apk!/lib/packed.so":          "is compressed in /data/app/base.apk",
		"/data/app/base.apk!/lib/arm64-v8a/libtt.so": `did you mean "libt.so"?`,
		"/data/app/base.apk!/notes.txt":              "is not an ELF file",
		"/data/app/other.apk!/lib/libt.so":           "no file",
		"/bin/native!/lib/libt.so":                   "not a valid zip file",
	} {
		_, err := Resolve(env, []Target{Uprobe{Path: path, Symbol: "add"}}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	_, err = Resolve(env, []Target{Uprobe{Path: "/data/app/base.apk!/x", Symbol: "add"}}, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not in the archive: %v", err)
	}
}

// TestZipAttach: the kernel takes the places in an archive.
func TestZipAttach(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	elf, err := os.ReadFile(probetest.TargetPath())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "base.apk")
	if err := os.WriteFile(path, makeZip(t, elf), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"uprobe:%s:add", "uprobe:%s:helper_*"} {
		attachCounter(t, mustResolve(t, nil, fmt.Sprintf(what, path+"!/lib/arm64-v8a/libt.so")), probetest.Counting{Value: -1})
	}
	list := names(collect(t, "usdt:"+path+"!/lib/arm64-v8a/libt.so:*", nil))
	if len(list) != 2 {
		t.Errorf("listed %q", list)
	}
}
