package broker

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/borescope/borescope/internal/testenv"
)

// oracle reads a policy by itself: what a client could trace and read it asks
// processes that are such clients.
type oracle struct {
	client   *target // a process with the client's rights
	pattern  string  // of files that the rule names
	function string  // that the rule names, or *
	kind     string  // uprobe, uretprobe
}

// attack is a request.
type attack struct {
	kind, file, function string
	p                    *target
	locked               bool
}

func (a *attack) String() string {
	return fmt.Sprintf("%s:%s:%s pid=%d", a.kind, a.file, a.function, a.p.pid)
}

// allows says what has to come of a request.
func (o *oracle) allows(a *attack) bool {
	if a.kind != o.kind || o.client.tell("trace %d", a.p.pid) != "true" {
		return false
	}
	switch {
	case a.function == "f" || a.function == "f*" && o.function == "*":
	default:
		return false // no function, an address, or more than the rule's
	}
	if !o.names(a.file) {
		return false
	}
	files, err := filepath.Glob(a.file)
	if err != nil || len(files) == 0 {
		return false
	}
	some := false
	for _, file := range files {
		if o.client.tell("read %s", file) != "true" {
			if len(files) == 1 {
				return false
			}
			continue // a pattern stands for what there is for the client
		}
		some = true
		real, err := filepath.EvalSymlinks(file)
		var st unix.Stat_t
		if err := errors.Join(err, unix.Stat(file, &st)); err != nil || !o.names(real) {
			return false
		}
		if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || st.Uid != nobody && !a.locked {
			return false
		}
	}
	return some
}

func (o *oracle) names(file string) bool {
	ok, err := filepath.Match(o.pattern, file)
	return ok && err == nil
}

// TestAttackRandom: random requests under several policies, each carried out or
// refused as an independent reading of the policy says.
func TestAttackRandom(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.Uprobes)
	dir := hall(t)
	for name, mode := range map[string]os.FileMode{
		"app-a": 0o755, "app-read": 0o444, "app-secret": 0o700, "app-suid": os.ModeSetuid | 0o755,
		"app-sgid": os.ModeSetgid | 0o755, "other": 0o755,
	} {
		put(t, dir+"/"+name, mode, 0)
		put(t, dir+"/own-"+name, mode, nobody)
	}
	if err := errors.Join(
		unix.Mkfifo(dir+"/app-fifo", 0o666), os.Symlink(dir+"/other", dir+"/app-link"), os.Symlink("app-read", dir+"/app-near"),
		os.Symlink("app-suid", dir+"/app-up"), os.Mkdir(dir+"/app-dir", 0o755),
	); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{"nothing", "app-*", "app-r*", "own-app-?", "own-o*", "app-l*", "[ao]*r"}
	for _, d := range entries {
		files = append(files, d.Name())
	}
	capable := func(cmd *testenv.Cmd) { cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} }
	targets := []attack{
		{p: startTarget(t, nobody, true, nil), locked: true},
		{p: startTarget(t, nobody, false, nil)},
		{p: startTarget(t, nobody, true, capable), locked: true},
		{p: startTarget(t, nobody-1, true, nil), locked: true},
	}
	client := startTarget(t, nobody, false, nil)
	rounds := 15
	if testenv.InGuest() {
		rounds = 80 // where nobody else's kernel changes its code for each
	}
	random := rand.New(rand.NewPCG(1, 2))
	allowed := 0
	for _, o := range []*oracle{
		{client, dir + "/app-*", "*", "uprobe"},
		{client, dir + "/*", "f", "uprobe"},
		{client, dir + "/own-*", "*", "uretprobe"},
		{client, dir + "/[a-n]*", "*", "uprobe"},
	} {
		b := start(t, Rule{
			UIDs: []uint32{nobody}, Offers: []string{"count"}, Targets: []string{o.kind + ":" + o.pattern + ":" + o.function},
		})
		c := b.dialAs(t, nobody)
		if _, err := c.Offers(); err != nil {
			t.Fatal(err)
		}
		for range rounds {
			a := targets[random.IntN(len(targets)*2)%7%len(targets)]
			a.kind = []string{o.kind, o.kind, o.kind, "uprobe"}[random.IntN(4)]
			a.file = dir + "/" + files[random.IntN(len(files))]
			a.function = []string{"f", "f", "f*", "g", "0x1000"}[random.IntN(5)]
			b.server.users.mu.Lock()
			b.server.users.of[nobody].rate = bucket{}
			b.server.users.mu.Unlock()
			got, err := c.Attach(Request{Offer: "count", Targets: []string{a.String()}})
			testenv.SkipUnsupported(t, err)
			if want := o.allows(&a); want != (err == nil) {
				t.Errorf("rule %s:%s:%s, %v (locked %v): %v, want it allowed: %v", o.kind, o.pattern, o.function, &a, a.locked, err, want)
			}
			if err == nil {
				allowed++
				if err := got.Close(); err != nil {
					t.Error(err)
				}
			} else if !strings.Contains(err.Error(), "rule 0: ") {
				t.Errorf("%v: %v names no rule", &a, err)
			}
		}
	}
	if allowed < rounds/4 {
		t.Errorf("%d requests were allowed: too few to say anything", allowed)
	}
}
