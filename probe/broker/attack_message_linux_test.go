package broker

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/borescope/borescope/internal/testenv"
)

// malformed sends what is no request.
func (f *field) malformed(t *testing.T, b *testBroker, o *oracle, c *person) {
	good, _ := json.Marshal(&request{Version: wireVersion, Op: opAttach, Offer: "count", Targets: []string{"uprobe:" + f.dir + "/own-good-1:f"}, Self: true})
	text := string(good)
	shape := one(f, "truncated", "followed", "random", "kind", "version", "field", "type", "targets", "text", "long", "deep", "number", "UTF-8", "empty", "none", "null")
	switch shape {
	case "truncated":
		text = text[:1+f.rnd.IntN(len(text)-1)]
	case "followed":
		text += one(f, "{}", "x", text, "]", "\x00")
	case "random":
		b := make([]byte, 1+f.rnd.IntN(3000))
		for i := range b {
			b[i] = byte(f.rnd.Uint32())
		}
		b[0] |= 0x80 // no text begins so, nor JSON
		text = string(b)
	case "kind":
		text = strings.Replace(text, `"attach"`, one(f, `"load"`, `""`, `"ATTACH"`, `"attach "`, `"end"`, `"connect"`), 1)
	case "version":
		text = strings.Replace(text, `"v":1`, one(f, `"v":2`, `"v":0`, `"v":-1`, `"v":1e9`, `"v":18446744073709551617`, `"w":1`), 1)
	case "field":
		text = strings.Replace(text, `"self"`, one(f, `"uid"`, `"program"`, `"peer"`), 1)
	case "type":
		text = strings.Replace(text, `"self":true`, one(f, `"self":1`, `"self":"yes"`, `"self":[true]`, `"targets":"x"`, `"targets":{}`, `"targets":[[]]`), 1)
	case "targets":
		text = strings.Replace(text, `"targets":[`, `"targets":[`+strings.Repeat(`"begin",`, one(f, maxTargets, 1000, 8000)), 1)
	case "text":
		text = strings.Replace(text, `"count"`, `"`+strings.Repeat("c", maxText+1)+`"`, 1)
	case "long":
		text += strings.Repeat(" ", maxMessage+1-len(text)+f.rnd.IntN(1000))
	case "deep":
		text = strings.Repeat(one(f, "[", `{"targets":`), 5000)
	case "number":
		text = strings.Replace(text, `"self"`, `"attachment":`+one(f, "-1", "1.5", "99999999999999999999", `"1"`)+`,"self"`, 1)
	case "UTF-8":
		text = strings.Replace(text, "count", "co\xff\xfent", 1)
	case "empty":
		text = one(f, "{}", `{"v":1}`, `{"v":1,"op":"attach"}`, `{"v":1,"op":"attach","offer":"count"}`, `{"v":1,"op":"attach","targets":["begin"]}`)
	case "none":
		text = ""
	case "null":
		text = one(f, "null", "[]", "7", `"x"`, "true")
	}
	shape = "message: " + shape
	n := f.seen[shape]
	n[mustNot]++
	f.seen[shape] = n
	a := c.answers(t, "send %s", base64.StdEncoding.EncodeToString([]byte(text)))
	want := "message"
	switch {
	case !o.knows(c):
		want = "permission"
	case text == "": // as if it had hung up
		want = ""
	}
	if a.ID != 0 || a.Kind != want || (want == "message" || text == "" && want == "") && !a.Dropped {
		t.Errorf("%s sends %.200q: %+v, want an error of kind %q", c.name, text, a, want)
	}
}

// state is what this process has that a broker could leave.
type state struct {
	objects testenv.Objects
	files   int
}

func newState(t *testing.T) *state {
	t.Helper()
	return &state{testenv.ObjectsOf(0), openFiles(t)}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// left says what there is of a broker whose clients have gone, "" if nothing.
func (s *state) left(t *testing.T, b *testBroker) string {
	var out []string
	b.server.users.mu.Lock()
	if n, all := len(b.server.users.of), len(b.server.users.all); n+all > 0 {
		out = append(out, fmt.Sprintf("%d users, %d requests pending", n, all))
	}
	b.server.users.mu.Unlock()
	b.server.commons.mu.Lock()
	if n := len(b.server.commons.of); n > 0 {
		out = append(out, fmt.Sprintf("%d sets of attachments", n))
	}
	b.server.commons.mu.Unlock()
	b.server.mu.Lock()
	for a := range b.server.usage {
		out = append(out, fmt.Sprintf("%+v is booked", a))
	}
	kept := slices.Clone(b.server.kept)
	b.server.mu.Unlock()
	for _, k := range kept {
		if u := b.server.used(k.account); u != (usage{}) {
			out = append(out, fmt.Sprintf("%+v of %+v is kept", u, k.account))
			break
		}
	}
	if now := testenv.ObjectsOf(0); now.Len() > s.objects.Len() {
		out = append(out, fmt.Sprintf("BPF objects %+v, before %+v", now, s.objects))
	}
	if n := openFiles(t); n > s.files+4 { // the listener, and what the runtime has opened meanwhile
		out = append(out, fmt.Sprintf("%d descriptors, before %d", n, s.files))
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if bytes.Contains(stacks, []byte("(*session).")) {
		out = append(out, "goroutines:\n"+string(stacks))
	}
	return strings.Join(out, "; ")
}

// expect waits until nothing is left.
func (s *state) expect(t *testing.T, b *testBroker) {
	t.Helper()
	left := ""
	for range 1000 {
		if left = s.left(t, b); left == "" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("left behind: %s", left)
}
