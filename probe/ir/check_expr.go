package ir

// DefaultString is the size of text whose size nobody gave, in bytes.
const DefaultString = 64
