package imports_test

import (
	"fmt"
	"testing/fstest"

	"github.com/borescope/borescope/probe/script/internal/imports"
	"github.com/borescope/borescope/probe/script/syntax"
)

func Example() {
	lib := fstest.MapFS{"twice.bt": {Data: []byte("macro twice(x) { 2 * x }")}}
	f, err := syntax.Parse("stdin", []byte(`import "twice.bt"; begin { print(twice(21)); }`), nil)
	if err == nil {
		_, err = imports.Load(f, &imports.Options{Dirs: []imports.Dir{{Name: "lib", FS: lib}}})
	}
	if err == nil {
		err = syntax.Expand(f, nil)
	}
	if err != nil {
		fmt.Print(syntax.ErrorText(err))
		return
	}
	fmt.Printf("%s", syntax.Dump(f))
	// Output:
	// import "twice.bt";
	// begin
	// {
	//   print({ 2 * 21 });
	// }
}
