"""The command line: one file a verb, each parses, calls one public function, and shows what came back."""
