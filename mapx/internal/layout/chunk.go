package layout

const MaxChunk = 32 << 20 // raw or compressed; bounds a reader's memory
