package resp

// globMatch says whether s matches a pattern of Redis's kind: * ? [abc] [a-z] [^...] and \x. fold ignores letter case.
// One star is backtracked to at a time, so the time is bounded by len(pattern) * len(s) whatever the pattern.
func globMatch(pattern, s []byte, fold bool) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, mark = p, i
				p++
				continue
			}
			if n, ok := globOne(pattern[p:], s[i], fold); ok {
				p += n
				i++
				continue
			}
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// globOne matches one byte with the head of a pattern, which is n bytes long.
func globOne(pattern []byte, c byte, fold bool) (n int, ok bool) {
	if fold {
		c = lowerByte(c)
	}
	lower := func(b byte) byte {
		if fold {
			return lowerByte(b)
		}
		return b
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return globClass(pattern, c, lower)
	case '\\':
		if len(pattern) > 1 {
			return 2, lower(pattern[1]) == c
		}
	}
	return 1, lower(pattern[0]) == c
}

// globClass matches [...]; a class that is never closed ends with the pattern.
func globClass(pattern []byte, c byte, lower func(byte) byte) (n int, ok bool) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	for i < len(pattern) && pattern[i] != ']' {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			ok = ok || lower(pattern[i+1]) == c
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			lo, hi := lower(pattern[i]), lower(pattern[i+2])
			if lo > hi {
				lo, hi = hi, lo
			}
			ok = ok || (c >= lo && c <= hi)
			i += 3
		default:
			ok = ok || lower(pattern[i]) == c
			i++
		}
	}
	if i < len(pattern) {
		i++
	}
	return i, ok != not
}
