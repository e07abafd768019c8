#!/bin/sh
# Records the built-in demo anew: five seconds of a machine on which a Go
# program sorts and compresses, python3 parses JSON, openssl and xz work, a
# shell loops and dd keeps the kernel busy. As root, from the repository's top.
# Afterwards: go test ./examples/profile -update
set -e
work=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null; rm -rf "$work"' EXIT
go build -o "$work/profile" ./examples/profile
cat >"$work/main.go" <<'GO'
package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"sort"
	"strings"
)

func words(seed int) []string {
	out := make([]string, 20000)
	for i := range out {
		seed = seed*1103515245 + 12345
		out[i] = fmt.Sprintf("key-%d", seed&0xffff)
	}
	return out
}

func compress(text string) {
	w := gzip.NewWriter(io.Discard)
	io.Copy(w, strings.NewReader(text))
	w.Close()
}

func main() {
	for seed := 1; ; seed++ {
		w := words(seed)
		sort.Strings(w)
		compress(strings.Join(w, "\n"))
	}
}
GO
(cd "$work" && go mod init ledger >/dev/null 2>&1 && go build -o ledger .)
spawn() { "$@" >/dev/null 2>&1 </dev/null & pids="$pids $!"; }
spawn "$work/ledger"
spawn python3 -c 'import json
while True: json.loads(json.dumps({str(i): [i] * 9 for i in range(500)}))'
spawn openssl speed -seconds 60 sha256
spawn sh -c 'while :; do :; done'
spawn dd if=/dev/zero of=/dev/null bs=64k
spawn xz -9 -c -k /usr/bin/python3 /usr/bin/openssl /usr/bin/git /usr/bin/perl
sleep 1
(cd "$work" && ./profile -d 5s -p "$(echo $pids | tr ' ' ,)" -record demo >/dev/null)
rm -f examples/profile/demo/*.table examples/profile/demo/*.stream examples/profile/demo/*.file examples/profile/demo/manifest
cp "$work"/demo/* examples/profile/demo/
