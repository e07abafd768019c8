//go:build !linux

package symbol

func ownVDSO(uint64) []byte { return nil }
