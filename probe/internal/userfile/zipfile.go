package userfile

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/borescope/borescope/internal/near"
	"github.com/borescope/borescope/internal/notexist"
	"github.com/borescope/borescope/probe/env"
)

// ZipSeparator separates an archive from the file in it, as in Android's dynamic linker and
// bpftrace: /data/app/base.apk!/lib/arm64-v8a/libfoo.so.
const ZipSeparator = "!/"

// CutZip splits the path of a file in an archive. ok is false if the part before the separator
// is not a regular file: a directory's name may end in an exclamation mark too.
func CutZip(e *env.Env, name string) (archive, member string, ok bool) {
	if archive, member, ok = strings.Cut(name, ZipSeparator); !ok || member == "" {
		return name, "", false
	}
	st, err := Stat(e, archive)
	if err != nil || !st.Mode().IsRegular() {
		return name, "", false
	}
	return archive, member, true
}

// OpenAt opens a file, or a file in an archive, live or recorded, for reading at offsets. base
// is its offset in the file that is mapped. The caller closes c.
func OpenAt(e *env.Env, from Sources, name string) (r *io.SectionReader, base uint64, c io.Closer,
	err error,
) {
	archive, member, zipped := CutZip(e, name)
	g, err := e.Root().Open(strings.TrimPrefix(archive, "/"))
	if err != nil {
		return nil, 0, nil, err
	}
	if f, ok := g.(*os.File); ok && e.Live() {
		if err := from.note(archive, f); err != nil {
			g.Close()
			return nil, 0, nil, err
		}
	}
	ra, ok := g.(io.ReaderAt)
	st, err := g.Stat()
	if err == nil && !ok {
		err = errors.New("the recorded file cannot be read at offsets")
	}
	if err == nil && zipped {
		r, base, err = zipMember(ra, st.Size(), archive, member)
	} else if err == nil {
		r = io.NewSectionReader(ra, 0, st.Size())
	}
	if err != nil {
		g.Close()
		return nil, 0, nil, err
	}
	return r, base, g, nil
}

// zipMember finds a file in an archive. The file must be stored uncompressed, because
// otherwise processes cannot map it.
func zipMember(r io.ReaderAt, size int64, archive, member string) (*io.SectionReader, uint64,
	error,
) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", archive, err)
	}
	var names []string
	for _, f := range z.File {
		if f.Name != member {
			names = append(names, path.Base(f.Name))
			continue
		}
		if f.Method != zip.Store {
			return nil, 0, fmt.Errorf("%s is compressed in %s, so processes map an extracted copy: probe that file", member, archive)
		}
		base, err := f.DataOffset()
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %s: %w", archive, member, err)
		}
		if f.UncompressedSize64 > uint64(size) || base > size-int64(f.UncompressedSize64) {
			return nil, 0, fmt.Errorf("%s: %s: %w", archive, member, io.ErrUnexpectedEOF)
		}
		return io.NewSectionReader(r, base, int64(f.UncompressedSize64)), uint64(base), nil
	}
	return nil, 0, notexist.Errorf("no file %s in %s%s", member, archive,
		near.Hint(path.Base(member), names))
}
