//go:build !linux || !(amd64 || arm64)

package provider

import "runtime"

func (p *Provider) mapImage(*image, string) error {
	return &UnsupportedError{
		Feature: "usdt provider",
		Hint:    "needs Linux on amd64 or arm64, this is " + runtime.GOOS + "/" + runtime.GOARCH,
	}
}

func (p *Provider) unmapImage() error { return nil }
