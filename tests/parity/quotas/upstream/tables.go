// Command tables reads the tables of cases in a package's tests, without compiling them, and writes them as JSON.
//
// For each function TestX it finds the variable "tests", a list of cases, and writes every case as the values that stand
// there: a literal as itself, a struct or map as an object, a list as an array, a call as {"call", "args", "on"}, and any
// other name as {"name"}. Variables of the package that have a literal as value, and those of the function, are replaced
// by it.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

type names map[string]ast.Expr

func main() {
	files := token.NewFileSet()
	packages, err := parser.ParseDir(files, os.Args[1], func(info os.FileInfo) bool {
		return strings.HasSuffix(info.Name(), "_test.go")
	}, 0)
	if err != nil {
		fail(err)
	}
	tables := map[string]any{}
	for _, each := range packages {
		known := names{}
		for _, file := range each.Files {
			for _, declaration := range file.Decls {
				if general, ok := declaration.(*ast.GenDecl); ok {
					addValues(known, general)
				}
			}
		}
		for _, file := range each.Files {
			for _, declaration := range file.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") {
					tables[function.Name.Name] = tableOf(function, known)
				}
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(tables); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func addValues(known names, general *ast.GenDecl) {
	for _, spec := range general.Specs {
		if values, ok := spec.(*ast.ValueSpec); ok {
			for i, name := range values.Names {
				if i < len(values.Values) {
					known[name.Name] = values.Values[i]
				}
			}
		}
	}
}

// tableOf returns the cases of a test function; nil if it has none.
func tableOf(function *ast.FuncDecl, known names) any {
	inner := names{}
	for name, value := range known {
		inner[name] = value
	}
	var table ast.Expr
	for _, statement := range function.Body.List {
		assignment, ok := statement.(*ast.AssignStmt)
		if !ok || len(assignment.Lhs) != 1 || len(assignment.Rhs) != 1 {
			continue
		}
		if name, ok := assignment.Lhs[0].(*ast.Ident); ok {
			if name.Name == "tests" {
				table = assignment.Rhs[0]
			} else {
				inner[name.Name] = assignment.Rhs[0]
			}
		}
	}
	if table == nil {
		return nil
	}
	return value(table, inner)
}

func value(expression ast.Expr, known names) any {
	switch e := expression.(type) {
	case *ast.BasicLit:
		return literal(e)
	case *ast.UnaryExpr:
		inner := value(e.X, known)
		if number, ok := inner.(int64); ok && e.Op == token.SUB {
			return -number
		}
		return inner // & of a struct
	case *ast.ParenExpr:
		return value(e.X, known)
	case *ast.CompositeLit:
		return composite(e, known)
	case *ast.CallExpr:
		return call(e, known)
	case *ast.Ident:
		switch e.Name {
		case "nil":
			return nil
		case "true", "false":
			return e.Name == "true"
		}
		if known[e.Name] != nil {
			return value(known[e.Name], known)
		}
		return map[string]any{"name": e.Name}
	case *ast.SelectorExpr:
		return map[string]any{"name": text(e)}
	}
	fail(fmt.Errorf("unexpected %T", expression))
	return nil
}

func literal(e *ast.BasicLit) any {
	switch e.Kind {
	case token.INT:
		number, err := strconv.ParseInt(e.Value, 0, 64)
		if err != nil {
			fail(err)
		}
		return number
	case token.STRING:
		unquoted, err := strconv.Unquote(e.Value)
		if err != nil {
			fail(err)
		}
		return unquoted
	}
	return e.Value
}

func composite(e *ast.CompositeLit, known names) any {
	object, list := map[string]any{}, []any{}
	for _, element := range e.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			object[key(pair.Key, e, known)] = value(pair.Value, known)
		} else {
			list = append(list, value(element, known))
		}
	}
	switch e.Type.(type) {
	case *ast.ArrayType:
		return list
	}
	if len(list) > 0 {
		return list
	}
	return object
}

// key returns a field's name as it stands there, and a map's key by its value.
func key(expression ast.Expr, of *ast.CompositeLit, known names) string {
	_, isMap := of.Type.(*ast.MapType)
	name, isName := expression.(*ast.Ident)
	if isName && !isMap {
		return name.Name
	}
	found := value(expression, known)
	if named, ok := found.(map[string]any); ok {
		return fmt.Sprint(named["name"])
	}
	return fmt.Sprint(found)
}

func call(e *ast.CallExpr, known names) any {
	args := []any{}
	for _, argument := range e.Args {
		args = append(args, value(argument, known))
	}
	called := e.Fun
	if generic, ok := called.(*ast.IndexExpr); ok {
		called = generic.X
	}
	if selector, ok := called.(*ast.SelectorExpr); ok {
		if on, ok := selector.X.(*ast.CallExpr); ok {
			return map[string]any{"call": selector.Sel.Name, "args": args, "on": call(on, known)}
		}
	}
	return map[string]any{"call": text(called), "args": args}
}

func text(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return text(e.X) + "." + e.Sel.Name
	}
	return fmt.Sprintf("%T", expression)
}
