package procfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// TestLateServer: a file that root's process serves is read while that answers, and waited for
// a few seconds in all when it does not: opening it, and reading it, waited for ever.
func TestLateServer(t *testing.T) {
	testenv.Need(t, testenv.Guest, testenv.Long, testenv.Root, testenv.Mounts)
	if !testenv.OwnMounts(t) {
		return
	}
	served := testenv.MountFUSE(t, 0, func(dev int) { testenv.ServeFUSE(dev, make([]byte, 8<<20)) })
	if served == nil {
		return
	}
	open := func() (fs.File, error) { return OpenInRoot(os.Getpid(), served.Program, false) }
	f, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() != 8<<20 {
		t.Errorf("%v, %v", st, err)
	}
	b := make([]byte, 4096)
	read := func(off int64) error {
		_, err := f.(io.ReaderAt).ReadAt(b, off)
		return err
	}
	if err := read(0); err != nil {
		t.Error(err)
	}
	if plain, err := Open(served.Program); err != nil || !IsRemote(plain, st) {
		t.Errorf("by its path: %v", err)
	} else {
		plain.Close()
	}

	testenv.Stop(t, served.Server)
	late := func(what string, err error, start time.Time, most time.Duration) {
		t.Helper()
		var served *ServedError
		if took := time.Since(start); !errors.As(err, &served) || took > most {
			t.Errorf("%s: %v after %v", what, err, took)
		} else {
			t.Logf("%s: %v after %v", what, err, took)
		}
	}
	start := time.Now()
	late("read", read(4<<20), start, 2*patience)
	// The server's time is used up: nothing waits for it any more.
	for i := range int64(100) {
		late("read again", read(4<<20+i<<12), start, 2*patience)
	}
	_, err = open()
	late("open", err, start, 2*patience)
	late("quiet", Quiet(func() error { return nil }), time.Now(), time.Second)
	if f, err := OpenInRoot(os.Getpid(), "/proc/self/exe", false); err == nil {
		f.Close()
	}
	if err := served.Server.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if err := read(4 << 20); err == nil {
			if err := Quiet(func() error { return nil }); err != nil {
				t.Error(err)
			}
			break
		} else if time.Since(start) > time.Minute {
			t.Fatalf("it answers again, and is not asked: %v", err)
		}
	}
}

// TestPatience: waits add up for each server, and are forgiven with time.
func TestPatience(t *testing.T) {
	start := time.Now()
	a := account{at: start}
	a.waited = patience
	a.settle(start.Add(4 * time.Second))
	if a.waited != patience-time.Second {
		t.Errorf("4 s later: %v", a.waited)
	}
	a.settle(start.Add(time.Hour))
	if a.waited != 0 {
		t.Errorf("an hour later: %v", a.waited)
	}
	defer func() { accounts.of = nil }()
	for i := range uint32(maxServers) {
		s := server{minor: i}
		a, most := s.account(start)
		if most != patience {
			t.Fatalf("server %d: %v", i, most)
		}
		a.spend(time.Second)
	}
	if _, most := (server{minor: 1 << 20}).account(start); most > 0 {
		t.Errorf("more servers than are remembered: %v", most)
	}
	if _, most := (server{minor: 1 << 20}).account(start.Add(time.Minute)); most != patience {
		t.Errorf("a minute later: %v", most)
	}
	n, err := ask(server{}, func() (int, error) { return 7, fs.ErrExist }, func(int) {})
	if n != 7 || err != fs.ErrExist {
		t.Errorf("%v, %v", n, err)
	}
}

// TestRemote: whoever can stop this machine anyway is not remote.
func TestRemote(t *testing.T) {
	for e, want := range map[mountEntry]bool{
		{fstype: "nfs4"}: true, {fstype: "fuse.sshfs"}: true, {fstype: "9p", options: "rw,trans=fd,rfdno=3"}: true,
		{fstype: "9p", options: "rw,trans=virtio"}: false, {fstype: "virtiofs"}: false, {fstype: "overlay"}: false,
		{fstype: "btrfs"}: false, {fstype: "zfs"}: false,
	} {
		if got := e.isRemote(); got != want {
			t.Errorf("%+v: %v", e, got)
		}
	}
}
