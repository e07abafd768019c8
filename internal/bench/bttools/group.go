package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// inGroup calls f with the directory of a new control group, of a hierarchy that is mounted for it.
func inGroup(f func(root, group string) error) (err error) {
	root, err := os.MkdirTemp("", "bttools")
	if err != nil {
		return err
	}
	defer os.Remove(root)
	if err := unix.Mount("cgroup2", root, "cgroup2", 0, ""); err != nil {
		return fmt.Errorf("mount cgroup2: %w", err)
	}
	group := filepath.Join(root, fmt.Sprint("bttools-", os.Getpid()))
	if err = os.Mkdir(group, 0o755); err == nil {
		err = errors.Join(f(root, group), remove(group))
	}
	return errors.Join(err, unix.Unmount(root, unix.MNT_DETACH))
}

// remove removes a group, whose processes may take a moment to end.
func remove(group string) (err error) {
	for range 100 {
		if err = os.Remove(group); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// confined runs a process that fills memory, in a group that may have little of it. The group stays for
// a while, in which its name can be looked up.
func confined(swap string, stays time.Duration) error {
	return inGroup(func(root, group string) error {
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
			return err
		}
		for file, value := range map[string]string{"memory.max": "33554432", "memory.swap.max": swap} {
			err := os.WriteFile(filepath.Join(group, file), []byte(value), 0)
			if err != nil && !(file == "memory.swap.max" && errors.Is(err, os.ErrNotExist)) { // without CONFIG_SWAP
				return err
			}
		}
		dir, err := os.Open(group)
		if err != nil {
			return err
		}
		defer dir.Close()
		cmd := exec.Command(os.Args[0], "-work", "fill")
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, UseCgroupFD: true, CgroupFD: int(dir.Fd())}
		err = cmd.Run()
		time.Sleep(stays)
		return err
	})
}

// fill writes to twice the memory that its group may have, and reads it.
func fill() error {
	b, err := unix.Mmap(-1, 0, 64<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	for i := 0; i < len(b); i += 8 { // pages that are zero or alike would not be written
		b[i], b[i+1], b[i+2] = byte(i>>3), byte(i>>11), byte(i>>19)
	}
	for i := 0; i < len(b); i += 4096 {
		if b[i+1] != byte(i>>11) {
			return errors.New("memory has other content than was written")
		}
	}
	return nil
}

// outOfMemory has the kernel kill a process.
func outOfMemory() error {
	if err := confined("0", 500*time.Millisecond); err == nil {
		return errors.New("the process was not killed")
	}
	return nil
}

// swap has a process's memory written to swap and read from it.
func swap() error {
	if err := errors.Join(command("mkswap", scratch), command("swapon", scratch)); err != nil {
		return err
	}
	return errors.Join(confined("max", 0), command("swapoff", scratch))
}

// dropped connects from a group whose policy drops all that it sends.
func dropped() error {
	return inGroup(func(_, group string) error {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.CGroupSKB, AttachType: ebpf.AttachCGroupInetEgress, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		})
		if err != nil {
			return err
		}
		defer prog.Close()
		policy, err := link.AttachCgroup(link.CgroupOptions{Path: group, Attach: ebpf.AttachCGroupInetEgress, Program: prog})
		if err != nil {
			return err
		}
		defer policy.Close()
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
		err = refused()
		return errors.Join(err, os.WriteFile(filepath.Join(filepath.Dir(group), "cgroup.procs"), []byte("0"), 0))
	})
}

// refused connects to nobody, and does not wait.
func refused() error {
	c, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(c)
	err = unix.Connect(c, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}})
	if errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}
