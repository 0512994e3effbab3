// A guest of the extension interface in plain Go: no SDK, no dependencies.
module kscheduler.test/guest

go 1.24
