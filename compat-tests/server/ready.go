package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/kafkawire"
)

// askLimit bounds one try; a try on a closed port fails at once.
const askLimit = time.Second

// readyz asks the admin port for /readyz.
func (s Spec) readyz(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<16))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", resp.Status)
	}
	return nil
}

// ping asks the Redis port. A Redis that is still loading its file answers
// -LOADING, which is not ready.
func (s Spec) ping(ctx context.Context) error {
	c, err := (&net.Dialer{Timeout: askLimit}).DialContext(ctx, "tcp", s.Redis)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(askLimit))
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	reply := make([]byte, 7)
	if _, err := io.ReadFull(c, reply); err != nil {
		return err
	}
	if string(reply) != "+PONG\r\n" {
		return errors.New("PING answered " + string(reply))
	}
	return nil
}

// apiVersions asks the Kafka port, then Metadata: a broker answers ApiVersions
// before it has registered itself, and is of no use until its own node is listed.
func (s Spec) apiVersions(ctx context.Context) error {
	c, err := kafkawire.Dial(ctx, s.Kafka)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(askLimit))
	versions := kmsg.NewPtrApiVersionsRequest()
	if _, err := c.Do(versions); err != nil {
		return err
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.Version = 8
	resp, err := c.Do(metadata)
	if err != nil {
		return err
	}
	if len(resp.(*kmsg.MetadataResponse).Brokers) == 0 {
		return errors.New("no broker is listed yet")
	}
	return nil
}
