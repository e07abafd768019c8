package broker

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeRequest(t *testing.T) {
	good := `{"v":1,"op":"attach","offer":"a","targets":["kprobe:f"],"self":true}`
	r, err := decodeRequest([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&request{1, "attach", "a", []string{"kprobe:f"}, true, 0}); !reflect.DeepEqual(r, want) {
		t.Errorf("%+v, want %+v", r, want)
	}
	many := `"kprobe:f"` + strings.Repeat(`,"kprobe:f"`, maxTargets)
	for name, bad := range map[string]string{
		"empty":         "",
		"no JSON":       "hello",
		"version":       `{"v":2,"op":"offers"}`,
		"no operation":  `{"v":1}`,
		"operation":     `{"v":1,"op":"load"}`,
		"unknown field": `{"v":1,"op":"offers","program":"AAAA"}`,
		"two values":    `{"v":1,"op":"offers"}{"v":1,"op":"offers"}`,
		"no target":     `{"v":1,"op":"attach","offer":"a"}`,
		"no offer":      `{"v":1,"op":"attach","targets":["kprobe:f"]}`,
		"many targets":  `{"v":1,"op":"attach","offer":"a","targets":[` + many + `]}`,
		"long text":     `{"v":1,"op":"attach","offer":"` + strings.Repeat("a", maxText+1) + `","targets":["begin"]}`,
		"long message":  `{"v":1,"op":"offers"}` + strings.Repeat(" ", maxMessage),
		"not UTF-8":     "{\"v\":1,\"op\":\"offers\",\"offer\":\"\xff\"}",
		"negative":      `{"v":1,"op":"detach","attachment":-1}`,
		"deep":          strings.Repeat("[", 60000),
	} {
		if r, err := decodeRequest([]byte(bad)); !errors.Is(err, errMessage) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestDecodeReply(t *testing.T) {
	for text, files := range map[string]int{
		`{"v":1,"maps":["a"],"links":2}`:  2,
		`{"v":1,"maps":["a"],"links":-1}`: 0,
		`{"v":1,"links":201}`:             201,
		`{"v":9}`:                         0,
		`{`:                               0,
	} {
		if _, err := decodeReply([]byte(text), files); !errors.Is(err, errMessage) {
			t.Errorf("%s with %d descriptors: %v", text, files, err)
		}
	}
	if r, err := decodeReply([]byte(`{"v":1,"maps":["a"],"links":2}`), 3); err != nil || r.Links != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestErrors: an error is matched on the other side as on this one.
func TestErrors(t *testing.T) {
	for _, err := range []error{refuse("no"), fs.ErrNotExist, errors.ErrUnsupported, errors.New("plain"), errMessage} {
		got := errorReply(err).err()
		for _, k := range errorKinds {
			if errors.Is(got, k.err) != errors.Is(err, k.err) {
				t.Errorf("%v is %s here, and not there", err, k.name)
			}
		}
		if got.Error() != err.Error() {
			t.Errorf("%q, want %q", got, err)
		}
	}
	if n := len(errorReply(errors.New(strings.Repeat("x", 1<<20))).Error); n > maxText {
		t.Errorf("an error of %d bytes", n)
	}
}

// FuzzDecodeRequest: what is accepted keeps to the limits, and is what it is
// encoded as again.
func FuzzDecodeRequest(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"op":"attach","offer":"a","targets":["kprobe:f","uprobe::main"],"self":true}`,
		`{"v":1,"op":"detach","attachment":18446744073709551615}`, `{"v":1,"op":"offers"}`, `{"v":1,"op":"stats"`,
		`{"V":1,"OP":"offers"}`, "[]", "null", `{"v":1e0,"op":"offers"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRequest(b)
		if err != nil {
			if !errors.Is(err, errMessage) {
				t.Errorf("%v does not say that the message is bad", err)
			}
			return
		}
		if len(r.Targets) > maxTargets || len(r.Offer) > maxText || r.Version != wireVersion {
			t.Errorf("beyond the limits: %+v", r)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(again) > maxMessage {
			return // escapes take more
		}
		q, err := decodeRequest(again)
		if err != nil || !reflect.DeepEqual(normal(q), normal(r)) {
			t.Errorf("%+v became %+v, %v", r, q, err)
		}
	})
}

// normal has no empty list of targets: JSON leaves it out.
func normal(r *request) request {
	out := *r
	if len(out.Targets) == 0 {
		out.Targets = nil
	}
	return out
}
