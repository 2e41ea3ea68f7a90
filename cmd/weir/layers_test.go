package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The arrows of the house (../../shared/design/layout.md): a room may import itself,
// its subfolders, and these.
var arrows = map[string][]string{
	"weir/storage":    {},
	"weir/engine":     {"weir/storage"},
	"weir/bridge":     {"weir/engine"},
	"weir/kafkaproto": {"weir/bridge"},
	"weir/resp":       {"weir/bridge", "weir/engine"},
	"weir/cmd/weir":   {"weir/storage", "weir/engine", "weir/bridge", "weir/kafkaproto", "weir/resp"},
}

// Some packages of others may be imported by one room only.
var fences = map[string]string{
	"github.com/cockroachdb/pebble/v2": "weir/storage",
	"github.com/twmb/franz-go":         "weir/kafkaproto",
	"github.com/tidwall/redcon":        "weir/resp",
	"github.com/prometheus":            "weir/cmd/weir",
	"github.com/alecthomas/kong":       "weir/cmd/weir",
}

type listed struct {
	ImportPath   string
	Dir          string
	Imports      []string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

func listPackages(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,TestGoFiles,XTestGoFiles", "weir/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// room is the top-level package that a package belongs to.
func room(path string) string {
	for r := range arrows {
		if path == r || strings.HasPrefix(path, r+"/") {
			return r
		}
	}
	return ""
}

func TestImportsFollowTheArrows(t *testing.T) {
	for _, p := range listPackages(t) {
		r := room(p.ImportPath)
		if r == "" {
			t.Errorf("%s is in no room of the house", p.ImportPath)
			continue
		}
		for _, imp := range p.Imports {
			if to := room(imp); to != "" && to != r && !contains(arrows[r], to) {
				t.Errorf("%s imports %s: no arrow from %s to %s", p.ImportPath, imp, r, to)
			}
			for prefix, owner := range fences {
				if strings.HasPrefix(imp, prefix) && r != owner {
					t.Errorf("%s imports %s, which only %s may", p.ImportPath, imp, owner)
				}
			}
		}
	}
}

// Sizes that a reader can hold: a function 100 lines, a file 800, a type 40 methods, an interface 8.
func TestSizes(t *testing.T) {
	for _, p := range listPackages(t) {
		methods := map[string]int{}
		files := append(append(append([]string{}, p.GoFiles...), p.TestGoFiles...), p.XTestGoFiles...)
		for _, name := range files {
			for _, complaint := range oversized(t, filepath.Join(p.Dir, name), methods) {
				t.Error(complaint)
			}
		}
		for typ, n := range methods {
			if n > 40 {
				t.Errorf("%s: type %s has %d methods", p.ImportPath, typ, n)
			}
		}
	}
}

func oversized(t *testing.T, file string, methods map[string]int) (complaints []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := fset.Position(f.FileEnd).Line; n > 801 {
		complaints = append(complaints, fmt.Sprintf("%s has %d lines", file, n))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if lines := fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1; lines > 100 {
				complaints = append(complaints, fmt.Sprintf("%s: func %s has %d lines", file, n.Name.Name, lines))
			}
			if n.Recv != nil {
				methods[receiver(n.Recv.List[0].Type)]++
			}
		case *ast.InterfaceType:
			if n.Methods.NumFields() > 8 {
				complaints = append(complaints, fmt.Sprintf("%s: an interface has %d methods", fset.Position(n.Pos()), n.Methods.NumFields()))
			}
		}
		return true
	})
	return complaints
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}
