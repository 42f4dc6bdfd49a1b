# Turns what a program prints with --help into its man page: awk -v version=X.Y.Z -f man_page.awk.
# Of the text before the flags, indented lines are examples, which keep their lines.

function roff(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
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
/^Flags, with their defaults:$/ { leave_example(); print ".SH OPTIONS"; flags = 1; next }
flags {
  line = $0
  if (sub(/^  --/, "--", line)) print ".TP\n\\fB" roff(line) "\\fR"
  else if (sub(/^ +/, "", line)) print roff(line)
  else if (line != "") { sub(/:$/, "", line); print ".SS " roff(line) }
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
