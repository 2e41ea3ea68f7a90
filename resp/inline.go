package resp

// splitWords cuts a line into words by Redis's quoting: "..." knows \n \r \t \b \a \\ \" \xHH, '...' knows \'. A closing
// quote must be followed by a space or the line's end. ok is false when quotes are unbalanced. Words alias line where they
// hold no quotes. CONFIG files and redis-cli know the same rules.
func splitWords(line []byte, words [][]byte) ([][]byte, bool) {
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return words, true
		}
		from := i
		for i < len(line) && !isSpace(line[i]) && line[i] != '"' && line[i] != '\'' {
			i++
		}
		if i == len(line) || isSpace(line[i]) {
			words = append(words, line[from:i])
			continue
		}
		word, n, ok := quotedWord(line[i:], append([]byte(nil), line[from:i]...))
		if !ok {
			return nil, false
		}
		words = append(words, word)
		i += n
	}
}

// quotedWord reads the rest of a word that has quotes in it, appending to word; n is how much of line it took.
func quotedWord(line, word []byte) (out []byte, n int, ok bool) {
	for n < len(line) && !isSpace(line[n]) {
		switch line[n] {
		case '"':
			word, n, ok = doubleQuoted(line, n+1, word)
		case '\'':
			word, n, ok = singleQuoted(line, n+1, word)
		default:
			word = append(word, line[n])
			n++
			continue
		}
		if !ok || (n < len(line) && !isSpace(line[n])) {
			return nil, 0, false
		}
	}
	return word, n, true
}

func doubleQuoted(line []byte, i int, word []byte) ([]byte, int, bool) {
	for i < len(line) {
		switch c := line[i]; {
		case c == '"':
			return word, i + 1, true
		case c == '\\' && i+3 < len(line) && line[i+1] == 'x' && isHex(line[i+2]) && isHex(line[i+3]):
			word = append(word, hexValue(line[i+2])<<4|hexValue(line[i+3]))
			i += 4
		case c == '\\' && i+1 < len(line):
			word = append(word, unescape(line[i+1]))
			i += 2
		default:
			word = append(word, c)
			i++
		}
	}
	return nil, 0, false
}

func singleQuoted(line []byte, i int, word []byte) ([]byte, int, bool) {
	for i < len(line) {
		switch c := line[i]; {
		case c == '\'':
			return word, i + 1, true
		case c == '\\' && i+1 < len(line) && line[i+1] == '\'':
			word = append(word, '\'')
			i += 2
		default:
			word = append(word, c)
			i++
		}
	}
	return nil, 0, false
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

func isSpace(c byte) bool { return c == ' ' || (c >= '\t' && c <= '\r') }

func isHex(c byte) bool {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')
}

func hexValue(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}
