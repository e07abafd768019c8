package main

// snippet is a script, and bpftrace's result for it.
type snippet struct {
	where    string // test and line
	src      string
	constant bool // false if the test makes it at run time
	accepted bool
	either   bool   // refused, by the grammar or by types
	text     string // of the error: all of it or, if partly, a part of it
	partly   bool
	passes   []string // after parsing: "attach", "macros"
	params   []string
	unsafe   bool
	process  bool
	environ  map[string]string
	// warning is a part of the warnings.
	warning string
	wants   []want // types that the test checks afterwards
	// says are texts of the errors that count. If it is empty, all do.
	says []string
	// oldKernel has none of the features that some functions need.
	oldKernel bool
	kernel    *suiteKernel // the suite's
}

// row is a file of gtests. If some of a file's tests are of the language only, these have
// another row.
type row struct {
	file   string
	accept []string // functions whose snippets are accepted; with a text too, refused
	refuse []string
	partly bool     // texts are part of the output
	passes []string // what the test runs after parsing
	// types is whether the test goes on to types. places are the kinds of the arguments after
	// the script that are texts.
	types         bool
	places        []string
	says          []string // the errors of the test's passes; others come later
	outcomes      bool     // arguments after the script have the result
	before, after string   // the text that the test puts around its snippets
	// machine has the tests that need files, processes or the kernel.
	machine []string
}

func rows() []row {
	return []row{
		{
			file: "parser.cpp", accept: []string{"test"},
			refuse: []string{"test_parse_failure", "test_macro_parse_failure"}, passes: []string{"attach"},
		},
		{
			file: "macro_expansion.cpp", accept: []string{"test"}, refuse: []string{"test_error"},
			partly: true, passes: []string{"macros"},
		},
		{
			file: "attachpoint_passes.cpp", accept: []string{"test", "test_uprobe_lang"},
			refuse: []string{"test_error"}, partly: true, passes: []string{"attach", "check"},
			machine: []string{"attachpoint_checker.uprobe", "attachpoint_checker.usdt"},
		},
		{file: "ap_probe_expansion.cpp", accept: []string{"test"}, passes: []string{"attach"}},
		{
			file: "fold_literals.cpp", accept: []string{"test", "test_error", "test_warning"}, types: true,
			places: []string{"Error", "Error", "Warning"}, says: foldTexts,
			before: "begin { ", after: "; exit(); }",
		},
		ofTypes("named_param.cpp", "Error", "Error"), ofTypes("pre_type_check.cpp", "Error", "Warning"),
		ofTypes("type_checker.cpp"), ofTypes("type_resolver.cpp"),
		ofPass("config_analyser.cpp", "configure"), ofPass("deprecated.cpp", "configure"),
		ofPass("unstable_feature.cpp", "configure"),
		ofPass("control_flow_analyser.cpp", "types"), ofPass("field_analyser.cpp", "types"),
		ofPass("resource_analyser.cpp", "configure", "types"),
		ofPass("portability_analyser.cpp", "macros", "attach", "portable"),
	}
}

// foldTexts are the error texts of the folding of literals.
var foldTexts = []string{
	"unable to fold", "negative value will underflow", "illegal literal operation",
}

// ofTypes returns the row of a file whose snippets are typed.
func ofTypes(file string, places ...string) row {
	return row{
		file: file, accept: []string{"test", "test_error"}, types: true, places: places,
	}
}

// ofPass returns the row of a file of one pass, whose tests have the result in words.
func ofPass(file string, passes ...string) row {
	return row{
		file: file, accept: []string{"test", "test_error", "test_for_warning"}, outcomes: true,
		passes: passes,
	}
}
