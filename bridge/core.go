package bridge

import "weir/engine"

// core is what every room of the bridge stands on.
type core struct {
	eng *engine.Engine
	o   Options
}

// now is the bridge's clock in ms.
func (c *core) now() int64 { return c.o.NowMS() }

// Now is the bridge's clock, ms.
func (c *core) Now() int64 { return c.now() }

// Engine is the engine below.
func (c *core) Engine() *engine.Engine { return c.eng }

// Begin starts a turn of the engine.
func (c *core) Begin(level Level) *Turn { return c.eng.Begin(level) }

// AutoCreates says whether clients may create topics by asking for them.
func (c *core) AutoCreates() bool { return c.o.AutoCreate }

// Park registers a waiter at streams; see engine.Park.
func (c *core) Park(w *Waiter, places []Place) { c.eng.Park(w, places) }

// Rearm lets a woken waiter be woken again.
func (c *core) Rearm(w *Waiter) { c.eng.Rearm(w) }

// Unpark removes a waiter from all its places.
func (c *core) Unpark(w *Waiter) { c.eng.Unpark(w) }
