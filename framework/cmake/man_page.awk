# Turns what a program prints with --help into its man page: awk -v version=X.Y.Z -f man_page.awk.
# Of the text before the flags, indented lines are examples, which keep their lines.

function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

# A flag as Abseil prints it: "--name (What it does.); default: value;"
function option(text,    name, value, at) {
  name = text
  sub(/ .*/, "", name)
  at = index(text, "); default: ")
  value = substr(text, at + 12)
  sub(/;$/, "", value)
  print ".TP\n\\fB" roff(name) "\\fR (default: " roff(value) ")"
  print roff(substr(text, length(name) + 3, at - length(name) - 3))
}

function leave_example() { if (example) print ".fi"; example = 0 }

NR == 1 {
  name = $1
  sub(/:$/, "", name)
  text = substr($0, length(name) + 3)
  summary = text
  sub(/[.,:;] .*|[.:;]$/, "", summary)
  print ".TH " toupper(roff(name)) " 1 \"\" \"Belfry " version "\" \"User Commands\""
  print ".SH NAME\n" roff(name) " \\- " tolower(substr(summary, 1, 1)) roff(substr(summary, 2))
  print ".SH SYNOPSIS\n.B " roff(name) "\n[\\fIFLAGS\\fR]"
  print ".SH DESCRIPTION\n" roff(text)
  next
}
/^  Flags from / { leave_example(); if (!flags) print ".SH OPTIONS"; flags = 1; next }
/^Try --helpfull/ { exit }
flags {
  if ($0 == "") next
  line = $0
  sub(/^ +/, "", line)
  pending = pending == "" ? line : pending " " line
  if (pending ~ /\); default: .*;$/) { option(pending); pending = "" }
  next
}
$0 == "" { blank = 1; next }
{
  indented = /^ /
  if (blank) { leave_example(); print ".PP" }
  blank = 0
  if (indented && !example) { print ".nf"; example = 1 }
  if (!indented) leave_example()
  print roff($0)
}
END {
  leave_example()
  print ".TP\n\\fB\\-\\-help\\fR, \\fB\\-h\\fR\nPrint this description and the flags, and end."
  print ".TP\n\\fB\\-\\-version\\fR\nPrint the version, and end."
}
