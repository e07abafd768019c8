package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/borescope/borescope/internal/testenv"
	"github.com/borescope/borescope/probe/tool/tooltest"
)

func TestMain(m *testing.M) { tooltest.Main(m, nil) }

// database is a PostgreSQL database that no server serves.
type database struct {
	t    *testing.T
	bin  string
	dir  string
	cred *syscall.Credential
}

// postgres is the newest server here, or where Debian has one.
func postgres() string {
	exes, _ := filepath.Glob(servers["postgres"])
	return slices.Max(append(exes, "/usr/lib/postgresql/15/bin/postgres"))
}

// newDatabase makes a database of the user postgres, because the server refuses
// to run as root.
func newDatabase(t *testing.T) *database {
	exe := postgres()
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	dir, err := os.MkdirTemp("", "dbslower")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	d := &database{t, filepath.Dir(exe), dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	d.do("", "initdb", "--no-sync", "-D", dir)
	return d
}

// do runs a program of PostgreSQL.
func (d *database) do(stdin, name string, args ...string) {
	d.t.Helper()
	cmd := testenv.Command(d.t, filepath.Join(d.bin, name), args...)
	cmd.Dir, cmd.Stdin = d.dir, strings.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: d.cred}
	if out, err := cmd.CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// 23 queries of a server that serves standard input are 23 rows, in order.
func TestLive(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Mounts, testenv.Uprobes, testenv.Tool(postgres()))
	if !testenv.OwnMounts(t) {
		return
	}
	testenv.OwnFiles(t, servers["postgres"])
	d := newDatabase(t)
	var queries strings.Builder
	for i := range 23 {
		fmt.Fprintf(&queries, "select %d;\n", i)
	}
	out := tooltest.Live(t, run, []string{"-json", "-m", "0", "-x", filepath.Join(d.bin, "postgres"), "postgres"}, func() {
		d.do(queries.String(), "postgres", "--single", "-D", d.dir, "postgres")
	})
	n := 0
	for _, r := range tooltest.Objects[struct {
		MS    float64
		Query string
	}](t, out) {
		if r.MS > 0 && r.Query == fmt.Sprintf("select %d;", n) {
			n++
		}
	}
	if n != 23 {
		t.Errorf("%d queries of 23:\n%s", n, out)
	}
}
