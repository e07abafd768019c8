//go:build linux && (amd64 || arm64)

package provider

import (
	"errors"
	"fmt"
	"os"

	"github.com/borescope/borescope/internal/usdtfire"
)

// mapImage writes the image to a file and maps its text and semaphores into
// the provider's region.
func (p *Provider) mapImage(im *image, dir string) (err error) {
	if len(p.region) != int(im.mapped) { // not the same probes as before
		if p.region, err = usdtfire.Reserve(int(im.mapped)); err != nil {
			return err
		}
	}
	file, err := writeImage(p.name, im.bytes, dir)
	if err != nil {
		return err
	}
	fd := int(file.f.Fd())
	err = p.region.MapText(im.textOff, im.textSize, fd, int64(im.textOff))
	if err == nil {
		err = p.region.MapData(im.semOff, im.semSize, fd, int64(im.semOff))
	}
	file.image = im
	p.file = file
	if err != nil {
		return errors.Join(err, p.unmapImage())
	}
	return nil
}

// unmapImage releases the file. Zeros replace the semaphores, so that nothing is enabled. A
// goroutine may be between the nop and the return of a stub, so the same text is mapped there
// from a file without probes.
func (p *Provider) unmapImage() error {
	im := p.file.image
	err := errors.Join(p.region.Clear(im.semOff, im.semSize), p.mapStubs(im), p.file.f.Close())
	if p.file.remove {
		err = errors.Join(err, os.Remove(p.file.path))
	}
	p.file = loaded{}
	return err
}

// mapStubs maps only the stubs.
func (p *Provider) mapStubs(im *image) error {
	l, err := writeImage(p.name+"-unloaded", im.bytes[im.textOff:im.textOff+im.textSize], "")
	if err != nil {
		return err
	}
	err = errors.Join(p.region.MapText(im.textOff, im.textSize, int(l.f.Fd()), 0), l.f.Close())
	if l.remove {
		err = errors.Join(err, os.Remove(l.path))
	}
	return err
}

// writeImage stores the image in an anonymous file, or in a named one in dir. If
// memfd_create is refused (seccomp), it uses a temporary file.
func writeImage(name string, b []byte, dir string) (loaded, error) {
	name = "usdt-" + name
	if dir == "" {
		if fd, err := usdtfire.Memfd(name, b); err == nil {
			return loaded{
				f:    os.NewFile(uintptr(fd), name),
				path: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd),
			}, nil
		}
	}
	f, err := os.CreateTemp(dir, name+"-*.so")
	if err != nil {
		return loaded{}, fmt.Errorf("write probes: %w", err)
	}
	// Tracers of other users read it too.
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(0o755)); err != nil {
		return loaded{}, errors.Join(fmt.Errorf("write probes: %w", err), f.Close(), os.Remove(f.Name()))
	}
	return loaded{f: f, path: f.Name(), remove: true}, nil
}
