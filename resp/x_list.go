package resp

// streamRows are the rows of the stream commands.
func streamRows() []*command { return nil }
