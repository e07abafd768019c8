package otlp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/borescope/borescope/probe/tool/cli"
)

// post sends a message by OTLP over HTTP, and returns the answer's.
func (c *Client) post(ctx context.Context, to *signal, body []byte) ([]byte, error) {
	answer, text, err := c.do(ctx, c.base+to.path, body, "application/x-protobuf")
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.200s", answer.Status, cli.Escape(string(text)))
	}
	return text, nil
}

// prefix is the length of what is before a message in gRPC: a byte that is 1 if it is compressed, and its
// length (grpc/doc/PROTOCOL-HTTP2.md). One call needs no more of gRPC, and so not its library.
const prefix = 5

// call sends a message by gRPC, and returns the answer's.
func (c *Client) call(ctx context.Context, to *signal, body []byte) ([]byte, error) {
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	answer, text, err := c.do(ctx, c.base+"/opentelemetry.proto.collector."+to.service+"/Export",
		append(framed, body...), "application/grpc")
	if err != nil {
		return nil, err
	}
	said := answer.Trailer
	if answer.Header.Get("Grpc-Status") != "" { // there is nothing but headers
		said = answer.Header
	}
	switch status := said.Get("Grpc-Status"); {
	case answer.StatusCode != http.StatusOK || status == "":
		return nil, fmt.Errorf("%s: no gRPC", answer.Status)
	case status != "0":
		message, err := url.PathUnescape(said.Get("Grpc-Message"))
		if err != nil {
			message = said.Get("Grpc-Message")
		}
		return nil, fmt.Errorf("gRPC status %.9s: %.200s", cli.Escape(status), cli.Escape(message))
	case len(text) < prefix || text[0] != 0 || uint64(binary.BigEndian.Uint32(text[1:])) != uint64(len(text)-prefix):
		return nil, errors.New("answer: not one message")
	}
	return text[prefix:], nil
}

// do posts a body, and returns the answer with its body.
func (c *Client) do(ctx context.Context, to string, body []byte, kind string) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", kind)
	if c.grpc {
		r.Header.Set("TE", "trailers")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	const most = 64 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, most))
	return answer, text, err
}

// refused returns an error if an answer says that something was refused. The answers to all signals have a
// partial_success as field 1, and that the number refused as field 1 and a message as field 2.
func refused(answer []byte) error {
	partial, err := fields(answer)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	said, err := fields(partial[1].bytes)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if n := said[1].number; n != 0 {
		return fmt.Errorf("%d of them are refused: %.200s", n, cli.Escape(string(said[2].bytes)))
	}
	return nil
}

// field is a value of a message of protobuf.
type field struct {
	number uint64
	bytes  []byte
}

// fields returns the last values of the fields of a message.
func fields(b []byte) (map[protowire.Number]field, error) {
	out := map[protowire.Number]field{}
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		out[num], b = f, b[n:]
	}
	return out, nil
}
