package main

// snippet is a script, and what bpftrace says of it.
type snippet struct {
	where    string // test and line
	src      string
	constant bool // false where the test makes it at run time
	accepted bool
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
	}
}
