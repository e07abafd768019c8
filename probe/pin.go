package probe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/borescope/borescope/internal/notexist"
)

// Pin pins everything that the Link holds in a new directory of a BPF file system, where
// it outlives the process. Closing the Link then closes its descriptors only: probes fire
// until the directory is removed. Attachments that no bpf_link owns (kernels before 5.15,
// sockets, tracefs events, begin and end) can't be pinned. With one of these Pin fails,
// and pins nothing.
func (l *Link) Pin(dir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return l.errClosed("pin")
	}
	for i := range l.held {
		if !l.held[i].link {
			return fmt.Errorf("pin: %s is attached by %s, which no bpf_link owns: %w",
				l.sites[l.held[i].first].Target, l.held[i].method, errors.ErrUnsupported)
		}
	}
	if len(l.held) == 0 {
		return errors.New("pin: the link holds nothing that could be pinned")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	for i := range l.held {
		if err := l.held[i].pin(filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return errors.Join(fmt.Errorf("pin: %s is on no BPF file system, perhaps: %w", dir, err),
				Unpin(dir))
		}
	}
	return nil
}

// Unpin removes a directory that Pin made. It also removes the attachments, unless a Link
// still holds them: they are gone when Unpin returns.
func Unpin(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("unpin: %w", err)
	}
	// The kernel frees a link some time after its file is removed, but at once when its
	// last descriptor is closed (bpf_link_put_direct, kernel/bpf/syscall.c).
	last := &Link{}
	for _, d := range entries {
		name := filepath.Join(dir, d.Name())
		if h, err := openPinnedLink(name); err == nil {
			last.held = append(last.held, h)
		}
		if err := os.Remove(name); err != nil {
			return errors.Join(fmt.Errorf("unpin: %w", err), last.Close())
		}
	}
	if err := errors.Join(os.Remove(dir), last.Close()); err != nil {
		return fmt.Errorf("unpin: %w", err)
	}
	return nil
}

// Files returns descriptors of the attachments, to pass to another process, which makes a
// Link of them by LinkFromFiles. The probes then fire until both processes have closed
// theirs. The caller closes the files. Files fails for attachments that no bpf_link owns,
// as Pin does.
func (l *Link) Files() ([]*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, l.errClosed("files")
	}
	var out []*os.File
	for i := range l.held {
		h := &l.held[i]
		err := fmt.Errorf("%s is attached by %s, which no bpf_link owns: %w", l.siteName(h), h.method,
			errors.ErrUnsupported)
		if h.link {
			var f *os.File
			if f, err = h.file(); err == nil {
				out = append(out, f)
				continue
			}
		}
		for _, f := range out {
			f.Close()
		}
		return nil, fmt.Errorf("files: %w", err)
	}
	return out, nil
}

// LinkFromFiles returns a Link made of descriptors that Files returned, in this or another
// process. The Link has its attachments' statistics but not their targets: Sites is
// empty. The files remain the caller's; the caller closes the Link.
func LinkFromFiles(files []*os.File) (*Link, error) {
	l := &Link{}
	for _, f := range files {
		h, err := linkFromFile(f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("link from files: %w", err), l.Close())
		}
		l.held = append(l.held, h)
	}
	return l, nil
}

// OpenPinned opens what Pin left in a directory, possibly in another process. The Link
// has its attachments' statistics but not their targets: Sites is empty. Closing it does
// not detach what is still pinned; Unpin does.
func OpenPinned(dir string) (*Link, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open pinned: %w", err)
	}
	l := &Link{}
	for i := range entries {
		h, err := openPinnedLink(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open pinned: %w", err), l.Close())
		}
		l.held = append(l.held, h)
	}
	if len(l.held) == 0 {
		return nil, notexist.Errorf("open pinned: %s is empty", dir)
	}
	return l, nil
}
