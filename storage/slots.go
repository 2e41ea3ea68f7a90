package storage

import "bytes"

// Slot is the hash slot of a Redis key: CRC16 (XMODEM) modulo 16,384, over the part
// between the first { and the next } where that is not empty (Redis Cluster's hash-tag rule).
func Slot(key []byte) uint16 {
	if open := bytes.IndexByte(key, '{'); open >= 0 {
		if n := bytes.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1 : open+1+n]
		}
	}
	var crc uint16
	for _, c := range key {
		crc = crc<<8 ^ crc16[byte(crc>>8)^c]
	}
	return crc % Slots
}

// crc16 is the table of the polynomial 0x1021.
var crc16 = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			if c&0x8000 != 0 {
				c = c<<1 ^ 0x1021
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()
