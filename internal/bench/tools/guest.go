package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/borescope/borescope/internal/vmtest/guest"
	"github.com/borescope/borescope/internal/vmtest/kernel"
	"github.com/borescope/borescope/internal/vmtest/wire"
)

// peersSuite is the Debian release whose bpftrace is the peer, version 0.17.
const peersSuite = "bookworm"

// inGuest does the same in a guest of that kernel, with Debian's bpftrace. BCC,
// which would have to compile there, is not installed. bpftrace needs a shell and headers.
func inGuest(ctx context.Context, version, bin string, names []string, rounds int) error {
	k, err := kernel.Get(version, "amd64")
	if err != nil {
		return err
	}
	root, err := kernel.DebianImage(peersSuite, k.Arch, "bpftrace", "dash", "linux-libc-dev")
	if err != nil {
		return err
	}
	o := guest.Options{
		Kernel: k, Root: root, Log: os.Stdout, MemoryMiB: 2048,
		Files: map[string]string{"/bin/bench": filepath.Join(bin, loadsName)},
	}
	if slices.Contains(names, "biolatency") {
		o.Modules = []string{"null_blk"}
	}
	for _, name := range names {
		o.Files["/bin/"+name] = filepath.Join(bin, name)
	}
	argv := []string{"/vmtest/bench", "-bin", "/vmtest", "-rounds", strconv.Itoa(rounds)}
	o.Jobs = []wire.Job{{
		Name: "tools", Argv: append(argv, names...), Chroot: guest.RootDir, Dir: "/root",
		Env: guest.Environment(&o), Timeout: 20 * time.Minute,
	}}
	r, err := guest.Run(ctx, o)
	if err != nil {
		return err
	}
	if r.Trouble != "" {
		return errors.New(r.Trouble)
	}
	if j := r.Jobs[0]; j.Status != "0" {
		return errors.New("ended with " + j.Status)
	}
	return nil
}
