package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// scratch is the disk that is read and overwritten, "" if there is none.
var scratch string

// disk returns what says whether the machine lacks the disk, or a program that the work on it takes.
func disk(programs ...string) func() error {
	return func() error {
		if scratch == "" {
			return errors.New("there is no disk to overwrite")
		}
		return program(programs...)()
	}
}

// readDisk reads pages of a disk, past the kernel's cache.
func readDisk() error {
	f, err := os.OpenFile(scratch, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	for i := range 20 {
		if _, err := unix.Pread(int(f.Fd()), b, int64(i)*65536); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program.
func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "MDADM_NO_UDEV=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// mirror makes half a mirror of the disk, writes to it, and has it flushed.
func mirror() (err error) {
	const device = "/dev/md100"
	err = command("mdadm", "--create", device, "--run", "--force", "--metadata=1.0", "--level=1", "--raid-devices=2", scratch, "missing")
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, command("mdadm", "--stop", device), command("mdadm", "--zero-superblock", scratch))
	}()
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, 4096), 0)
	return errors.Join(err, unix.Fsync(int(f.Fd())), f.Close())
}

// onXFS calls f with a directory of a new file system on the disk.
func onXFS(f func(dir string) error) error {
	if err := command("mkfs.xfs", "-q", "-f", scratch); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bttools")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount(scratch, dir, "xfs", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", scratch, err)
	}
	return errors.Join(f(dir), unix.Unmount(dir, 0))
}

// files writes, syncs and reads a file.
func files() error {
	return onXFS(func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "bttools"))
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 8192))
		_, again := f.ReadAt(make([]byte, 8192), 0)
		return errors.Join(err, again, f.Sync(), f.Close())
	})
}

// onDisk reports whether the files here are on a disk.
func onDisk() bool {
	var st unix.Statfs_t
	if err := unix.Statfs(".", &st); err != nil {
		return false
	}
	switch st.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return false
	}
	return true
}

// diskFiles returns what the machine lacks for a file on a disk.
func diskFiles() error {
	if onDisk() {
		return nil
	}
	return disk("mkfs.xfs")()
}

// writeBack has the kernel write a file's pages.
func writeBack() error {
	write := func(dir string) error {
		f, err := os.Create(filepath.Join(dir, "bttools"))
		if err != nil {
			return err
		}
		_, err = f.Write(make([]byte, 1<<20))
		return errors.Join(err, unix.Syncfs(int(f.Fd())), f.Close(), os.Remove(f.Name()))
	}
	if onDisk() {
		return write(".")
	}
	return onXFS(write)
}
