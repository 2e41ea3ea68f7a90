package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is set by a release build (-ldflags "-X main.version=1.2.3").
var version = "dev"

type cli struct {
	Serve   serveConfig `cmd:"" help:"Serve Kafka and Redis clients."`
	Check   checkConfig `cmd:"" help:"Check every invariant of a data directory that is not being served."`
	Version struct{}    `cmd:"" help:"Print the version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	var c cli
	parser, err := kong.New(&c, kong.Name("weir"), kong.Description("Kafka and Redis streams on the same data."),
		kong.DefaultEnvars("WEIR"), kong.Writers(out, errOut), kong.UsageOnError())
	if err != nil {
		fmt.Fprintln(errOut, "weir:", err)
		return 2
	}
	resolver, err := fileResolver(args, knownSetting)
	if err != nil {
		fmt.Fprintln(errOut, "weir:", err)
		return 2
	}
	if err := kong.Resolvers(resolver).Apply(parser); err != nil {
		fmt.Fprintln(errOut, "weir:", err)
		return 2
	}
	k, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(errOut, "weir:", err)
		return 2
	}
	switch k.Command() {
	case "serve":
		err = serve(ctx, &c.Serve)
	case "check":
		err = check(ctx, &c.Check, out)
	case "version":
		fmt.Fprintf(out, "weir %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
	if err != nil {
		fmt.Fprintln(errOut, "weir:", err)
		return 1
	}
	return 0
}

// knownSetting says whether a name in a file is one of serve's flags.
func knownSetting(name string) bool {
	t := reflect.TypeFor[serveConfig]()
	for i := range t.NumField() {
		if flagName(t.Field(i).Name) == name {
			return true
		}
	}
	return false
}

// flagName is kong's: TailCache becomes tail-cache.
func flagName(field string) string {
	var out []byte
	for i, r := range []byte(field) {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				out = append(out, '-')
			}
			r += 'a' - 'A'
		}
		out = append(out, r)
	}
	return string(out)
}

func buildVersion() string {
	if version != "dev" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				return version + "-" + s.Value[:12]
			}
		}
	}
	return version
}
