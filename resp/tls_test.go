package resp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"
)

// TestTLSListener: a listener that is not a plain socket is served by goroutines, blocking reads and the noticing of who leaves
// included.
func TestTLSListener(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := New(openBridge(t), Options{})
	addr := serveOn(t, s, tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}}))
	connect := func() *client {
		nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		return newClient(t, nc)
	}
	k, w := connect(), connect()
	k.want("PING", "+PONG")
	k.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
	s.waitBlocked(t, 1)
	k.send("ECHO", "ahead")
	w.want("XADD s 1-0 f v", `"1-0"`)
	if v := k.read().String(); v != `[["s", [["1-0", ["f", "v"]]]]]` {
		t.Error(v)
	}
	if v := k.read(); v.text != "ahead" {
		t.Error(v)
	}
	k.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
	s.waitBlocked(t, 1)
	k.nc.Close()
	s.waitBlocked(t, 0)
	w.want("PING", "+PONG")
}
