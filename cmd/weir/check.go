package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"weir/storage"
)

// checkConfig is `weir check`.
type checkConfig struct {
	Data string `default:"./weir-data" help:"Data directory."`
}

// check opens the directory alone, to read it only, and looks at every row. Problems are printed and
// make the status 1.
func check(ctx context.Context, c *checkConfig, out io.Writer) error {
	if _, err := os.Stat(c.Data); err != nil {
		return fmt.Errorf("--data: %w", err) // checking must not make a store
	}
	store, err := openStore(c.Data, storage.Options{Aside: true})
	if err != nil {
		return err
	}
	report, err := storage.Check(ctx, store)
	if cerr := store.Close(ctx); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	for _, p := range report.Problems {
		fmt.Fprintln(out, p)
	}
	fmt.Fprintf(out, "%d rows, %d streams, %d blocks, %d entries (%d more deleted), %d groups, %d consumers, %d pending in %d runs, %d producers\n",
		report.Rows, report.Streams, report.Blocks, report.Entries, report.Deleted, report.Groups, report.Consumers,
		report.PendingEntries, report.PendingRuns, report.Producers)
	if !report.Sound() {
		return fmt.Errorf("%s is damaged: %d problems", c.Data, len(report.Problems)+report.More)
	}
	return nil
}
