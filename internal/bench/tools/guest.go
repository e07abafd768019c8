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

// inGuest runs this command in a guest of the kernel s.guest, with the built tools and
// Debian's bpftrace. BCC is not installed, because it would have to compile there. bpftrace
// needs a shell and headers.
func (s *settings) inGuest(ctx context.Context, tools []string, args ...string) error {
	k, err := kernel.Get(s.guest, "amd64")
	if err != nil {
		return err
	}
	root, err := kernel.DebianImage(peersSuite, k.Arch, "bpftrace", "dash", "linux-libc-dev")
	if err != nil {
		return err
	}
	o := guest.Options{
		Kernel: k, Root: root, Log: os.Stdout, MemoryMiB: 2048,
		Files: map[string]string{"/bin/bench": filepath.Join(s.bin, loadsName)},
	}
	if slices.Contains(tools, "biolatency") {
		o.Modules = []string{"null_blk"}
	}
	for _, name := range tools {
		o.Files["/bin/"+name] = filepath.Join(s.bin, name)
	}
	argv := []string{"/vmtest/bench", "-bin", "/vmtest", "-rounds", strconv.Itoa(s.rounds)}
	o.Jobs = []wire.Job{{
		Name: "tools", Argv: append(argv, args...), Chroot: guest.RootDir, Dir: "/root",
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
