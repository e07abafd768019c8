package main

// snippet is a script, and what bpftrace says of it.
type snippet struct {
	where    string // test and line
	src      string
	constant bool // false where the test makes it at run time
	accepted bool
	either   bool   // refused, by the grammar or by types
	text     string // of the error: all of it, or with partly a part of it
	partly   bool
	passes   []string // after parsing: "attach", "macros"
	params   []string
	unsafe   bool
	process  bool
}

// row is a file of gtests. Another one whose tests are only of the language is one more row.
type row struct {
	file   string
	accept []string // functions whose snippets are accepted; with a text too, refused
	refuse []string
	partly bool     // texts are part of the output
	passes []string // what the test runs after parsing
	// types says that the test goes on to types: what it accepts and what it refuses is accepted
	// here, unless the text is of a syntax error.
	types         bool
	before, after string // what the test puts around its snippets
	// machine are the tests that need files, processes or the kernel.
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
			file: "fold_literals.cpp", accept: []string{"test", "test_error"}, types: true,
			before: "begin { ", after: "; exit(); }",
		},
		ofTypes("config_analyser.cpp"), ofTypes("control_flow_analyser.cpp"),
		ofTypes("deprecated.cpp"), ofTypes("field_analyser.cpp"), ofTypes("named_param.cpp"),
		ofTypes("portability_analyser.cpp"), ofTypes("pre_type_check.cpp"),
		ofTypes("resource_analyser.cpp"), ofTypes("type_checker.cpp"), ofTypes("type_resolver.cpp"),
		ofTypes("unstable_feature.cpp"),
	}
}

// ofTypes is a file whose snippets have to parse.
func ofTypes(file string) row {
	return row{file: file, accept: []string{"test", "test_error", "test_for_warning"}, types: true}
}
