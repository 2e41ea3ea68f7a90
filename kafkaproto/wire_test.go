package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// compressedRecords compresses with franz-go's compressors.
func compressedRecords(t testing.TB, records []byte, codec kgo.CompressionCodec) ([]byte, int16) {
	t.Helper()
	c, err := kgo.DefaultCompressor(codec)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	out, used := c.Compress(&buf, records)
	return bytes.Clone(out), int16(used)
}

// sealed writes a batch with its length and CRC.
func sealed(kb *kmsg.RecordBatch) []byte {
	kb.Length = int32(49 + len(kb.Records))
	out := kb.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// read reads the reply to a request; broken says how the connection ended instead.
func (s *groupStory) read(t *testing.T, c *storyClient, req kmsg.Request) (resp kmsg.Response, broken string) {
	t.Helper()
	b, err := readFrame(c.nc)
	if err != nil {
		return nil, "connection: " + err.Error() + "\n"
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != apiVersionsKey {
		b = b[1:]
	}
	resp = req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("%T: %v", resp, err)
	}
	return resp, ""
}

// readFrame reads one reply: correlation and on.
func readFrame(nc net.Conn) ([]byte, error) {
	nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(nc, b)
	return b, err
}
