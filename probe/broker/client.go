package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/cilium/ebpf"

	"github.com/borescope/borescope/probe"
	"github.com/borescope/borescope/probe/deploy"
)

// Client is a connection to a broker. It is safe for concurrent use; requests are carried
// out one after the other.
type Client struct {
	conn *net.UnixConn
	mu   sync.Mutex // one request at a time
	buf  []byte     // guarded by mu
}

// Dial connects to the broker whose socket is at a path. The caller closes the
// Client, which ends its attachments.
func Dial(path string) (*Client, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return NewClient(conn), nil
}

// NewClient returns a Client on a connection of the network "unixpacket", such as one that
// was inherited. The Client owns the connection.
func NewClient(conn *net.UnixConn) *Client {
	return &Client{conn: conn, buf: make([]byte, maxMessage+1)}
}

// Request is a client's request to attach a program.
type Request struct {
	// Offer is the name of a program that the broker offers.
	Offer string
	// Targets are what it is attached to, in the syntax of probe.ParseTarget, with process
	// ids as the broker sees them. At most 64 are allowed, of 4096 bytes each.
	Targets []string
	// Self restricts the targets to this process, whatever its pid is for the broker.
	Self bool
}

// Attachment is what the broker attached for a client, and the descriptors that it sent.
// The caller closes it.
type Attachment struct {
	// Sites is the number of sites where the program is attached.
	Sites int
	// Maps are the program's maps by name, read-only except ring buffers and the maps
	// that the offer makes writable. The Attachment owns them.
	Maps map[string]*ebpf.Map
	// Link holds the attachments themselves if the policy hands them over, nil otherwise.
	// The Attachment owns it.
	Link *probe.Link

	client *Client
	id     uint64
}

// Attach asks for an attachment. The caller closes it. Errors are the broker's: they match
// fs.ErrPermission if its policy refuses, fs.ErrNotExist for what does not exist, and
// errors.ErrUnsupported for what the kernel can't do.
func (c *Client) Attach(r Request) (*Attachment, error) {
	a := &Attachment{client: c, Maps: map[string]*ebpf.Map{}}
	req := request{Op: opAttach, Offer: r.Offer, Targets: r.Targets, Self: r.Self}
	var links []*os.File
	defer func() {
		for _, f := range links {
			f.Close()
		}
	}()
	err := c.do(&req, func(part *reply, files []int) error {
		a.id, a.Sites = part.Attachment, part.Sites
		for i, fd := range files {
			if i >= len(part.Maps) {
				links = append(links, os.NewFile(uintptr(fd), "bpf_link"))
				continue
			}
			m, err := mapFrom(fd)
			if err != nil {
				return errors.Join(fmt.Errorf("map %s: %w", part.Maps[i], err), closeFiles(files[i+1:]))
			}
			a.Maps[part.Maps[i]] = m
		}
		return nil
	})
	if err == nil && len(links) > 0 {
		a.Link, err = probe.LinkFromFiles(links)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("broker: %w", err), a.Close())
	}
	return a, nil
}

// Offers returns the names of the offers that this client may ask for.
func (c *Client) Offers() ([]string, error) {
	var out []string
	err := c.do(&request{Op: opOffers}, func(r *reply, _ []int) error {
		out = append(out, r.Offers...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	return out, nil
}

// Stats returns how many events the attachment's programs saw, and how many were dropped
// because they exceeded the policy's rate.
func (a *Attachment) Stats() (deploy.UserStats, error) {
	var st deploy.UserStats
	err := a.client.do(&request{Op: opStats, Attachment: a.id}, func(r *reply, _ []int) error {
		st = deploy.UserStats{Events: r.Events, Dropped: r.Dropped}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("broker: %w", err)
	}
	return st, err
}

// Close detaches and closes the maps. It may be called again, on a nil Attachment, and
// after the broker has ended.
func (a *Attachment) Close() error {
	if a == nil {
		return nil
	}
	var errs []error
	for name, m := range a.Maps {
		errs = append(errs, m.Close())
		delete(a.Maps, name)
	}
	errs = append(errs, a.Link.Close())
	if a.id != 0 {
		err := a.client.do(&request{Op: opDetach, Attachment: a.id}, nil)
		if !gone(err) {
			errs = append(errs, err)
		}
		a.id = 0
	}
	return errors.Join(errs...)
}

// Close ends the connection, and with it all attachments that were not handed over. It may
// be called again, and on a nil Client.
func (c *Client) Close() error {
	if c == nil {
		return nil
	}
	err := c.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// do sends a request and reads the parts of its answer. each owns the
// descriptors that it is called with.
func (c *Client) do(req *request, each func(*reply, []int) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	req.Version = wireVersion
	b, err := json.Marshal(req)
	if err != nil {
		return err
	}
	if _, err := decodeRequest(b); err != nil {
		return err // the broker would answer with this error, and hang up
	}
	if err := writeMessage(c.conn, b, nil); err != nil && !gone(err) {
		return err
	} // a broker that has hung up may have said why
	var failed error
	for i := range maxParts {
		n, files, err := readMessage(c.conn, c.buf, maxFiles)
		if i == 0 && gone(err) {
			n, files, err = readMessage(c.conn, c.buf, maxFiles) // the reset comes before the last message
		}
		if err != nil {
			return errors.Join(err, closeFiles(files))
		}
		r, err := decodeReply(c.buf[:n], len(files))
		if err != nil {
			return errors.Join(err, closeFiles(files), c.conn.Close())
		}
		if err := r.err(); err != nil {
			return err
		}
		switch {
		case failed != nil || each == nil:
			failed = errors.Join(failed, closeFiles(files))
		default:
			failed = each(r, files)
		}
		if !r.More {
			return failed
		}
	}
	return errors.Join(fmt.Errorf("%w: too many parts", errMessage), c.conn.Close())
}
