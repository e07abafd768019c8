package broker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"unicode/utf8"
)

// A message is one packet of a SOCK_SEQPACKET socket, JSON, with descriptors (SCM_RIGHTS)
// in replies. The limits hold for both sides.
const (
	wireVersion = 1
	// maxMessage is the size of a message in bytes.
	maxMessage = 64 << 10
	// maxTargets and maxText bound the strings of a request.
	maxTargets = 64
	maxText    = 4096
	// maxFiles is how many descriptors one message has at most: the kernel's limit is 253
	// (SCM_MAX_FD).
	maxFiles = 200
	// maxParts bounds the messages of one reply.
	maxParts = 64
)

// The operations.
const (
	opAttach = "attach"
	opDetach = "detach"
	opStats  = "stats"
	opOffers = "offers"
)

// request is a client's message.
type request struct {
	Version    int      `json:"v"`
	Op         string   `json:"op"`
	Offer      string   `json:"offer,omitempty"`
	Targets    []string `json:"targets,omitempty"`
	Self       bool     `json:"self,omitempty"`
	Attachment uint64   `json:"attachment,omitempty"`
}

// reply is the server's answer. One with many descriptors comes in parts, all but the last
// of which have More set.
type reply struct {
	Version    int      `json:"v"`
	Error      string   `json:"error,omitempty"`
	Kind       string   `json:"kind,omitempty"`
	Attachment uint64   `json:"attachment,omitempty"`
	Sites      int      `json:"sites,omitempty"`
	Maps       []string `json:"maps,omitempty"`
	Links      int      `json:"links,omitempty"`
	Events     uint64   `json:"events,omitempty"`
	Dropped    uint64   `json:"dropped,omitempty"`
	Offers     []string `json:"offers,omitempty"`
	More       bool     `json:"more,omitempty"`
}

// errMessage is matched by the errors of messages that break the protocol.
var errMessage = errors.New("bad message")

// decode reads one JSON value strictly.
func decode(b []byte, v any) error {
	if len(b) > maxMessage {
		return fmt.Errorf("%w: %d bytes, the limit is %d", errMessage, len(b), maxMessage)
	}
	if !utf8.Valid(b) {
		return fmt.Errorf("%w: not UTF-8", errMessage)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more than one value", errMessage)
	}
	return nil
}

// decodeRequest decodes a request, and checks all limits.
func decodeRequest(b []byte) (*request, error) {
	r := &request{}
	if err := decode(b, r); err != nil {
		return nil, err
	}
	if r.Version != wireVersion {
		return nil, fmt.Errorf("%w: version %d, this is %d", errMessage, r.Version, wireVersion)
	}
	if len(r.Targets) > maxTargets {
		return nil, fmt.Errorf("%w: %d targets, the limit is %d", errMessage, len(r.Targets), maxTargets)
	}
	for _, s := range append([]string{r.Offer}, r.Targets...) {
		if len(s) > maxText {
			return nil, fmt.Errorf("%w: a text of %d bytes, the limit is %d", errMessage, len(s), maxText)
		}
	}
	switch r.Op {
	case opAttach:
		if r.Offer == "" || len(r.Targets) == 0 {
			return nil, fmt.Errorf("%w: attach takes an offer and targets", errMessage)
		}
	case opDetach, opStats, opOffers:
	default:
		return nil, fmt.Errorf("%w: no operation is called %q", errMessage, r.Op)
	}
	return r, nil
}

// decodeReply decodes a reply that came with so many descriptors.
func decodeReply(b []byte, files int) (*reply, error) {
	r := &reply{}
	if err := decode(b, r); err != nil {
		return nil, err
	}
	if r.Version != wireVersion {
		return nil, fmt.Errorf("%w: version %d, this is %d", errMessage, r.Version, wireVersion)
	}
	if r.Links < 0 || r.Links > maxFiles || len(r.Maps)+r.Links != files {
		return nil, fmt.Errorf("%w: %d maps and %d links with %d descriptors", errMessage, len(r.Maps),
			r.Links, files)
	}
	return r, nil
}

// errorKinds are the errors that both sides distinguish.
var errorKinds = []struct {
	name string
	err  error
}{
	{"permission", fs.ErrPermission},
	{"not exist", fs.ErrNotExist},
	{"unsupported", errors.ErrUnsupported},
	{"closed", fs.ErrClosed},
	{"message", errMessage},
}

// errorReply returns a reply that carries an error.
func errorReply(err error) *reply {
	r := &reply{Error: err.Error()}
	if len(r.Error) > maxText {
		r.Error = r.Error[:maxText-3] + "…"
	}
	for _, k := range errorKinds {
		if errors.Is(err, k.err) {
			r.Kind = k.name
			break
		}
	}
	return r
}

// remoteError is an error of the other side: its text, and the error that it matches.
type remoteError struct {
	text string
	kind error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.kind }

// err returns the error that a reply carries, nil if none.
func (r *reply) err() error {
	if r.Error == "" {
		return nil
	}
	e := &remoteError{text: r.Error}
	for _, k := range errorKinds {
		if k.name == r.Kind {
			e.kind = k.err
		}
	}
	return e
}
