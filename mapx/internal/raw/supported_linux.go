package raw

// Supported is nil where live maps can be read.
func Supported(string) error { return nil }
